"""What the unit tests share: the embedded store, and the way to the modules of bench/."""

import importlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from secretary.store import Store, open_store

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of the benchmarks, which find each other as programs do."""
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """The embedded one alone: what all stores owe is shown in tests/contract."""
    store = open_store(f"sqlite://{tmp_path}/jobs.db")
    await store.open()
    yield store
    await store.close()
