"""Copies everything that one store holds into another one, and compares them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from .colleagues import is_alive
from .errors import Conflict
from .store import BatchQuery, JobStore
from .store.transfer import KINDS, Kind, Record, RecordId, differs


@dataclass(slots=True)
class Tally:
    """Of one kind of records."""

    found: int = 0
    copied: int = 0
    #: Known to the source, but gone meanwhile, or without what lay outside of it.
    unreadable: int = 0

    @property
    def skipped(self) -> int:
        return self.found - self.copied


@dataclass(slots=True)
class Comparison:
    """Records that the copy has not, and those that say something else there."""

    compared: int = 0
    missing: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)


Tell = Callable[[Kind, int], None]


async def check_stores(
    source: JobStore, target: JobStore | None, *, anyway: bool, into_existing: bool
) -> None:
    """`Conflict` when something speaks against a copy. None: the target is still to be made."""
    if not anyway:
        await _check_idle(source, "The source")
    if target is None:
        return
    if not anyway:
        await _check_idle(target, "The target")
    if not into_existing and not await _is_empty(target):
        raise Conflict(
            "The target is not empty. With --into-existing what it has stays as it is"
            " and what it has not is added."
        )


async def _check_idle(store: JobStore, which: str) -> None:
    alive = [worker for worker in await store.workers() if is_alive(worker)]
    if alive:
        names = ", ".join(f"{worker.worker_id} on {worker.host}" for worker in alive)
        raise Conflict(
            f"{which} has workers that are alive ({names}). Stop them and the service first: what"
            " changes while it is copied may be lost. With --anyway it is copied all the same."
        )


async def _is_empty(store: JobStore) -> bool:
    batches = await store.find_batches(BatchQuery(limit=1))
    return not batches.items and not await store.counts()


async def count_records(source: JobStore) -> dict[Kind, Tally]:
    tallies = {kind: Tally() for kind in KINDS}
    tallies["jobs"].found = await _count_jobs(source)
    for kind in KINDS[1:]:
        async for group in source.records(kind):
            tallies[kind].found += len(group)
    return tallies


async def _count_jobs(store: JobStore) -> int:
    return sum(n for by_status in (await store.counts()).values() for n in by_status.values())


async def copy_records(
    source: JobStore, target: JobStore, tell: Tell = lambda kind, found: None
) -> dict[Kind, Tally]:
    """What the target has already is left out: so it goes on where it stopped."""
    tallies = {kind: Tally() for kind in KINDS}
    expected = await _count_jobs(source)
    for kind, tally in tallies.items():
        async for group in source.records(kind):
            tally.copied += len(await target.take_in(group))
            tally.found += len(group)
            tell(kind, tally.found)
    tallies["jobs"].unreadable = max(0, expected - tallies["jobs"].found)
    return tallies


async def compare_records(
    source: JobStore, target: JobStore, tell: Tell = lambda kind, found: None
) -> Comparison:
    """Each record of the source beside that of the target."""
    comparison = Comparison()
    for kind in KINDS:
        seen = 0
        async for group in source.records(kind):
            there = await _looked_up(target, kind, group)
            for record in group:
                _compare(record, there.get(record.record_id), comparison)
            seen += len(group)
            tell(kind, seen)
    return comparison


async def _looked_up(target: JobStore, kind: Kind, group: list[Record]) -> dict[RecordId, Record]:
    ids = [record.record_id for record in group]
    found = [one async for part in target.records(kind, ids) for one in part]
    return {one.record_id: one for one in found}


def _compare(record: Record, other: Record | None, comparison: Comparison) -> None:
    comparison.compared += 1
    name = str(record.record_id)
    if other is None:
        comparison.missing.append(name)
    elif differs(record, other):
        comparison.different.append(name)
