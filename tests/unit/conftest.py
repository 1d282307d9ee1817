"""The embedded store alone: what all stores owe is shown in tests/contract."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from secretary.store import JobStore, open_store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[JobStore]:
    store = open_store(f"sqlite://{tmp_path}/jobs.db")
    await store.open()
    yield store
    await store.close()
