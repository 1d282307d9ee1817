"""How `secretary store copy` copies, and what it tells of it."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..core.errors import Conflict, InvalidParameters
from ..migration.copy import (
    Comparison,
    FileCounts,
    RecordCounts,
    check_copyable,
    compare_files,
    compare_records,
    copy_files,
    copy_records,
    count_files,
    count_records,
)
from ..migration.locations import (
    StorageLocation,
    StoreAddress,
    check_exists,
    open_location,
    parse_address,
)
from ..store.transfer import Kind
from .backend import Advance, Tell
from .options import log_quietly, read_settings
from .output import complain, print_json
from .progress_bar import ProgressBar, meter
from .tables import print_tallies

#: Of what differs so many are named.
MAX_NAMED = 20


@dataclass(frozen=True, slots=True)
class CopyOptions:
    into_existing: bool
    anyway: bool
    dry_run: bool
    verify: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    records: Mapping[Kind, RecordCounts]
    files: FileCounts | None
    comparison: Comparison | None
    files_that_differ: list[str]

    @property
    def is_whole(self) -> bool:
        wrong = self.comparison and (self.comparison.missing or self.comparison.different)
        unreadable = any(tally.unreadable for tally in self.records.values())
        return not (wrong or unreadable or self.files_that_differ)


def copy_store(
    source: str,
    target: str,
    *,
    from_files: str | None,
    to_files: str | None,
    wishes: CopyOptions,
    config: Path | None,
    as_json: bool,
) -> None:
    settings = read_settings(config, None)
    log_quietly(settings)
    addresses = (
        parse_address(source, from_files, settings),
        parse_address(target, to_files, settings),
    )
    check_exists(addresses[0])
    if addresses[0].store_url == addresses[1].store_url:
        raise InvalidParameters("FROM and TO are the same store")
    with meter() as bars:
        outcome = asyncio.run(_copy(*addresses, wishes, bars))
    _tell(outcome, wishes, as_json=as_json)
    if not outcome.is_whole:
        raise Conflict("The copy is not the same as its source")


async def _copy(
    source: StoreAddress, target: StoreAddress, wishes: CopyOptions, bars: ProgressBar
) -> Outcome:
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(open_location(source))
        there = None
        file = target.database_file
        if not (wishes.dry_run and file is not None and not file.exists()):
            there = await stack.enter_async_context(open_location(target))
        await check_copyable(
            here.store,
            there.store if there else None,
            anyway=wishes.anyway,
            into_existing=wishes.into_existing,
        )
        if wishes.dry_run or there is None:
            counted = await count_files(here.files) if here.files else None
            return Outcome(await count_records(here.store), counted, None, [])
        return await _carry(here, there, wishes, bars)


async def _carry(
    here: StorageLocation, there: StorageLocation, wishes: CopyOptions, bars: ProgressBar
) -> Outcome:
    """The files first: whoever sees a job finds them."""
    expected = (await count_records(here.store))["jobs"].found
    files, differ, comparison = None, [], None
    if here.files is not None and there.files is not None:
        with bars.job("files") as tell:
            files = await copy_files(here.files, there.files, _files_teller(tell))
    with bars.job("records") as tell:
        records = await copy_records(here.store, there.store, _teller(tell, expected))
    if wishes.verify:
        with bars.job("verifying") as tell:
            comparison = await compare_records(here.store, there.store, _teller(tell, expected))
        if here.files is not None and there.files is not None:
            differ = await compare_files(here.files, there.files)
    return Outcome(records, files, comparison, differ)


def _teller(tell: Tell, expected: int) -> Callable[[Kind, int], None]:
    def told(kind: Kind, number: int) -> None:
        percent = 100 * number // max(expected, 1) if kind == "jobs" else 99
        tell(Advance(min(99, percent), f"{number} {kind}"))

    return told


def _files_teller(tell: Tell) -> Callable[[FileCounts], object]:
    # How many there are is not known before.
    return lambda tally: tell(Advance(0, f"{tally.found}"))


def _tell(outcome: Outcome, wishes: CopyOptions, *, as_json: bool) -> None:
    rows: dict[str, RecordCounts | FileCounts] = {
        kind: row for kind, row in outcome.records.items()
    }
    if outcome.files is not None:
        rows["files"] = outcome.files
    if as_json:
        print_json(_document(outcome, rows))
        return
    numbers = {name: (row.found, row.copied, row.skipped) for name, row in rows.items()}
    print_tallies(numbers, done="copied")
    if wishes.dry_run:
        complain("Nothing was copied")
    if (unreadable := outcome.records["jobs"].unreadable) > 0:
        complain(f"{unreadable} jobs of the source could not be read")
    if outcome.comparison is not None:
        complain(f"{outcome.comparison.compared} records were compared")
        _name("missing", outcome.comparison.missing)
        _name("different", outcome.comparison.different)
    _name("files missing", outcome.files_that_differ)


def _name(what: str, names: list[str]) -> None:
    for name in names[:MAX_NAMED]:
        complain(f"{what}: {name}")
    if len(names) > MAX_NAMED:
        complain(f"{what}: {len(names) - MAX_NAMED} more")


def _document(outcome: Outcome, rows: dict[str, RecordCounts | FileCounts]) -> dict[str, Any]:
    told = {name: {**asdict(row), "skipped": row.skipped} for name, row in rows.items()}
    comparison = asdict(outcome.comparison) if outcome.comparison else None
    return {**told, "comparison": comparison, "files_that_differ": outcome.files_that_differ}
