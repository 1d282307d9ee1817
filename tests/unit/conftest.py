"""Shared by the unit tests: the embedded store, and access to the modules of bench/."""

import importlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from secretary.store import Store, open_store

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a benchmark module; they import each other as top-level modules."""
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """Only the embedded store: tests/contract covers what all stores guarantee."""
    store = open_store(f"sqlite://{tmp_path}/jobs.db")
    await store.open()
    yield store
    await store.close()
