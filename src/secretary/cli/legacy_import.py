"""How `secretary import-legacy` takes over older jobs, and what it tells of it."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from ..config import Settings
from ..core.errors import InvalidParameters
from ..migration.legacy_documents import RunningJobs
from ..migration.legacy_import import KindReport, LegacyImporter, LegacyReport, open_legacy_source
from ..migration.locations import MONGODB, SETTINGS, StorageLocation, open_location, parse_address
from .backend import Advance
from .options import log_quietly
from .output import complain, print_json
from .progress_bar import ProgressBar, meter
from .tables import print_tallies

#: Of what cannot be read so many are named.
MAX_NAMED = 50


def import_older(
    uri: str, *, running: str, dry_run: bool, as_json: bool, settings: Settings
) -> None:
    log_quietly(settings)
    if running not in ("failed", "pending"):
        raise InvalidParameters("--running is failed or pending")
    address = (settings.storage.mongodb_uri or "") if uri == SETTINGS else uri
    if not address.startswith(MONGODB):
        raise InvalidParameters("The older jobs are in a MongoDB: mongodb://host/database")
    becomes: RunningJobs = "pending" if running == "pending" else "failed"
    with meter() as bars:
        report = asyncio.run(_import(address, settings, becomes, dry_run, bars))
    if as_json:
        print_json(_document(report))
    else:
        _tell(report, dry_run=dry_run)
    _warn_of_retention(settings, report)


async def _import(
    uri: str, settings: Settings, running: RunningJobs, dry_run: bool, bars: ProgressBar
) -> LegacyReport:
    older = open_legacy_source(uri)
    async with AsyncExitStack() as stack:
        await older.open()
        stack.push_async_callback(older.close)
        address = parse_address(SETTINGS, None, settings)
        home: StorageLocation | None = None
        file = address.database_file
        if not (dry_run and file is not None and not file.exists()):
            home = await stack.enter_async_context(open_location(address))
        importer = LegacyImporter(
            older,
            home.store if home else None,
            home.files if home else None,
            running=running,
            dry_run=dry_run,
        )
        with bars.job("jobs") as tell:
            return await importer.run(lambda found: tell(Advance(0, f"{found}")))


def _tell(report: LegacyReport, *, dry_run: bool) -> None:
    kinds = {"jobs": report.jobs, "batches": report.batches}
    numbers = {name: (one.found, one.imported, one.skipped) for name, one in kinds.items()}
    print_tallies(numbers, done="imported")
    for status, number in sorted(report.by_status.items()):
        complain(f"{number} jobs are {status.value} here")
    if report.archives:
        complain(f"{report.archives} archives became files")
    for name, one in kinds.items():
        for field, number in one.left_behind.most_common():
            complain(f"the field {field} of {number} {name} means nothing here")
        for record_id, reason in list(one.unreadable.items())[:MAX_NAMED]:
            complain(f"cannot be read: {record_id}: {reason}")
        if len(one.unreadable) > MAX_NAMED:
            complain(f"cannot be read: {len(one.unreadable) - MAX_NAMED} more (--json names all)")
    if dry_run:
        complain("Nothing was imported")


def _warn_of_retention(settings: Settings, report: LegacyReport) -> None:
    kept = settings.retention
    days = {
        "completed": kept.completed_days,
        "failed": kept.failed_days,
        "cancelled": kept.cancelled_days,
    }
    bounded = [f"{name}_days" for name, number in days.items() if number]
    ended = sum(number for status, number in report.by_status.items() if status.value in days)
    if ended and bounded:
        complain(
            "Ended jobs are removed after the days in the settings, counted from their own end:"
            f" set retention.{', retention.'.join(bounded)} before you start the service"
        )


def _document(report: LegacyReport) -> dict[str, Any]:
    return {
        "jobs": _kind(report.jobs),
        "batches": _kind(report.batches),
        "archives": report.archives,
        "by_status": {status.value: number for status, number in report.by_status.items()},
    }


def _kind(report: KindReport) -> dict[str, Any]:
    return {
        "found": report.found,
        "imported": report.imported,
        "skipped": report.skipped,
        "unreadable": report.unreadable,
        "left_behind": dict(report.left_behind),
    }
