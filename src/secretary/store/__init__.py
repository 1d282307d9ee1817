"""The job store: its protocols by purpose, and how to open one by URL."""

from importlib import import_module
from typing import Protocol, cast

from .claims import Capacity, ClaimStore, Renewal, Rescued, WorkerInfo
from .jobs import (
    Added,
    BatchQuery,
    BatchStore,
    CallbackKey,
    Change,
    Changes,
    IdempotencyKey,
    JobQuery,
    JobStore,
    Page,
)
from .outbox import OutboxStore
from .stats import JobCharge, StatsStore, Throughput, Usage, UsageStore
from .transfer import TransferStore

__all__ = [
    "STORES", "Added", "BatchQuery", "BatchStore", "CallbackKey", "Capacity", "Change", "Changes",
    "ClaimStore", "IdempotencyKey", "JobCharge", "JobQuery", "JobStore", "OutboxStore", "Page",
    "Renewal", "Rescued", "StatsStore", "Store", "Throughput", "TransferStore", "Usage",
    "UsageStore", "WorkerInfo", "open_store",
]  # fmt: skip

STORES = {
    "sqlite": "secretary.store.sqlite:SqliteStore",
    "mongodb": "secretary.store.mongo:MongoStore",
    "mongodb+srv": "secretary.store.mongo:MongoStore",
}


class WorkerStore(JobStore, ClaimStore, UsageStore, Protocol):
    """What running jobs and maintenance need."""


class Store(
    JobStore,
    BatchStore,
    ClaimStore,
    OutboxStore,
    StatsStore,
    UsageStore,
    TransferStore,
    Protocol,
):
    """A database with everything in it; callers take the narrowest protocol they need.

    Each call is atomic, and raises `StoreUnavailable` when the database is unreachable. The
    contract of an implementation is the test suite in tests/contract.
    """

    async def open(self) -> None: ...
    async def close(self) -> None: ...

    def secret(self) -> bytes:
        """A random secret, created once and shared by all processes with this store, for keyed
        hashes. Available while the store is open."""


def open_store(url: str) -> Store:
    """Build the store that `url` names. Its driver is imported only now, so it stays optional."""
    scheme, _, _ = url.partition("://")
    module, _, name = STORES[scheme].partition(":")
    return cast(Store, getattr(import_module(module), name)(url))
