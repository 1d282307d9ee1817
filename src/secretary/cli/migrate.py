"""`secretary store copy`, `import-legacy` and `import-config`: move jobs, files and settings."""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import Conflict, InvalidParameters
from ..core.files import PRIVATE_UMASK
from .backend import FINAL, Document, JobProgress, OnProgress, Status
from .options import AsJson, ConfigFile, DataDir, Target
from .output import (
    ProgressDisplay,
    echo,
    echo_err,
    print_json,
    print_transfer_counts,
    progress_display,
)

if TYPE_CHECKING:
    from ..config import Settings
    from ..migration.copy import Comparison, FileCounts, RecordCounts, StorageLocation, StoreAddress
    from ..migration.legacy import LegacyReport, RunningJobs
    from ..migration.legacy_config import ConfigImport
    from ..store.transfer import Kind

#: How many differing or unreadable records are listed.
MAX_DIFFERENT, MAX_UNREADABLE = 20, 50

app = typer.Typer(help="Copy stores.", no_args_is_help=True)


@app.callback()
def _store() -> None:
    """Make typer treat `copy` as a subcommand, although it is the only one."""


@dataclass(frozen=True, slots=True)
class CopyReport:
    records: "dict[Kind, RecordCounts]"
    files: "FileCounts | None"
    comparison: "Comparison | None" = None
    differing_files: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        differs = self.comparison and (self.comparison.missing or self.comparison.different)
        unreadable = any(counts.unreadable for counts in self.records.values())
        return not (differs or unreadable or self.differing_files)

    def rows(self) -> "dict[str, RecordCounts | FileCounts]":
        rows: dict[str, RecordCounts | FileCounts] = dict(self.records.items())
        return rows | ({"files": self.files} if self.files is not None else {})

    def document(self) -> Document:
        rows = {name: {**asdict(row), "skipped": row.skipped} for name, row in self.rows().items()}
        comparison = asdict(self.comparison) if self.comparison else None
        return {**rows, "comparison": comparison, "files_that_differ": list(self.differing_files)}


@app.command()
def copy(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="Data directory, database file or URL")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="The same; created if it does not exist")
    ],
    from_files: Annotated[
        str | None,
        typer.Option(help="Location of the source files: a directory, gridfs, s3://… or none"),
    ] = None,
    to_files: Annotated[
        str | None, typer.Option(help="Location of the copied files [default: with the store]")
    ] = None,
    into_existing: Annotated[
        bool, typer.Option("--into-existing", help="Add what the target lacks; change nothing")
    ] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Copy even if workers are running")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count records without copying them")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare every job afterwards")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Copy jobs, batches and files to another store."""
    from ..migration import copy as migration

    settings = Target(config=config).quiet_settings()
    source_address = migration.parse_address(source, from_files, settings)
    target_address = migration.parse_address(target, to_files, settings)
    migration.check_exists(source_address)
    if source_address.store_url == target_address.store_url:
        raise InvalidParameters("FROM and TO are the same store")

    async def work() -> CopyReport:
        opening = _open_target(target_address, dry_run=dry_run)
        async with migration.open_location(source_address) as source, opening as target:
            target_store = target.store if target else None
            await migration.check_copyable(
                source.store, target_store, anyway=anyway, into_existing=into_existing
            )
            if target is not None and not dry_run:
                return await _copy_all(source, target, display, verify=verify)
            files = await migration.count_files(source.files) if source.files else None
            return CopyReport(await migration.count_records(source.store), files)

    with progress_display() as display:
        report = asyncio.run(work())
    if as_json:
        print_json(report.document())
    else:
        _print_copy_report(report, dry_run=dry_run)
    if not report.is_complete:
        raise Conflict("The copy is not the same as its source")


async def _copy_all(
    source: "StorageLocation", target: "StorageLocation", display: ProgressDisplay, *, verify: bool
) -> CopyReport:
    """Copy the files first, so that every job in the target has them."""
    from ..migration import copy as migration

    job_count = (await migration.count_records(source.store))["jobs"].found
    files, differing_files, comparison = None, [], None
    if source.files is not None and target.files is not None:
        with display.job("files") as on_progress:
            files = await migration.copy_files(  # of an unknown number
                source.files,
                target.files,
                lambda counts: on_progress(JobProgress(0, f"{counts.found}")),
            )
    with display.job("records") as on_progress:
        on_records = _record_progress(on_progress, job_count)
        records = await migration.copy_records(source.store, target.store, on_records)
    if verify:
        with display.job("verifying") as on_progress:
            on_records = _record_progress(on_progress, job_count)
            comparison = await migration.compare_records(source.store, target.store, on_records)
        if source.files is not None and target.files is not None:
            differing_files = await migration.compare_files(source.files, target.files)
    return CopyReport(records, files, comparison, tuple(differing_files))


def _record_progress(on_progress: OnProgress, job_count: int) -> "Callable[[Kind, int], None]":
    def report(kind: "Kind", number: int) -> None:
        percent = 100 * number // max(job_count, 1) if kind == "jobs" else 99
        on_progress(JobProgress(min(99, percent), f"{number} {kind}"))

    return report


def _print_copy_report(report: CopyReport, *, dry_run: bool) -> None:
    rows = report.rows()
    counts = {name: (row.found, row.copied, row.skipped) for name, row in rows.items()}
    print_transfer_counts(counts, done="copied")
    if dry_run:
        echo_err("Dry run: nothing was copied")
    if unreadable := report.records["jobs"].unreadable:
        echo_err(f"{unreadable} jobs of the source could not be read")
    if report.comparison is not None:
        echo_err(f"{report.comparison.compared} records were compared")
        _print_names("missing", report.comparison.missing)
        _print_names("different", report.comparison.different)
    _print_names("files missing", report.differing_files)


def _print_names(label: str, names: Sequence[str]) -> None:
    for name in names[:MAX_DIFFERENT]:
        echo_err(f"{label}: {name}")
    if len(names) > MAX_DIFFERENT:
        echo_err(f"{label}: {len(names) - MAX_DIFFERENT} more")


def import_legacy(
    uri: Annotated[
        str, typer.Argument(help="mongodb://host/database, or `settings` to use MONGODB_URI")
    ],
    running: Annotated[
        str, typer.Option(help="New state of jobs that were running: failed or pending")
    ] = "failed",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read everything without importing it")
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: ConfigFile = None,
) -> None:
    """Import the jobs and batches of the previous service (event_jobs and event_batches)."""
    from ..migration.copy import MONGODB, SETTINGS, parse_address
    from ..migration.legacy import LegacyImporter, open_legacy_source

    settings = Target(data_dir, config).quiet_settings()
    if running not in ("failed", "pending"):
        raise InvalidParameters("--running is failed or pending")
    legacy_uri = (settings.storage.mongodb_uri or "") if uri == SETTINGS else uri
    if not legacy_uri.startswith(MONGODB):
        raise InvalidParameters("The older jobs are in a MongoDB: mongodb://host/database")

    async def work() -> "LegacyReport":
        opening = _open_target(parse_address(SETTINGS, None, settings), dry_run=dry_run)
        async with open_legacy_source(legacy_uri) as source, opening as target:
            store, files = (target.store, target.files) if target else (None, None)
            state: RunningJobs = "pending" if running == "pending" else "failed"
            importer = LegacyImporter(source, store, files, running=state, dry_run=dry_run)
            with display.job("jobs") as on_progress:
                return await importer.run(lambda count: on_progress(JobProgress(0, f"{count}")))

    with progress_display() as display:
        report = asyncio.run(work())
    if as_json:
        print_json(_legacy_document(report))
    else:
        _print_legacy_report(report, dry_run=dry_run)
    _warn_about_retention(settings, report)


def _open_target(
    address: "StoreAddress", *, dry_run: bool
) -> "AbstractAsyncContextManager[StorageLocation | None]":
    """Open a store; None if a dry run would create its database file."""
    from ..migration.copy import open_location

    os.umask(PRIVATE_UMASK)
    file = address.database_file
    is_missing = file is not None and not file.exists()
    return nullcontext() if dry_run and is_missing else open_location(address)


def _print_legacy_report(report: "LegacyReport", *, dry_run: bool) -> None:
    kinds = {"jobs": report.jobs, "batches": report.batches}
    counts = {name: (kind.found, kind.imported, kind.skipped) for name, kind in kinds.items()}
    print_transfer_counts(counts, done="imported")
    for status, number in sorted(report.by_status.items()):
        echo_err(f"{number} jobs are {status.value} here")
    if report.archives:
        echo_err(f"{report.archives} archives were saved as files")
    for name, kind in kinds.items():
        for field, number in kind.left_behind.most_common():
            echo_err(f"ignored: the field {field} of {number} {name}")
        for record_id, reason in list(kind.unreadable.items())[:MAX_UNREADABLE]:
            echo_err(f"cannot be read: {record_id}: {reason}")
        if (more := len(kind.unreadable) - MAX_UNREADABLE) > 0:
            echo_err(f"cannot be read: {more} more (--json lists all)")
    if dry_run:
        echo_err("Dry run: nothing was imported")


def _warn_about_retention(settings: "Settings", report: "LegacyReport") -> None:
    names = [f"{status}_days" for status in Status if status in FINAL]
    limited = [f"retention.{name}" for name in names if getattr(settings.retention, name)]
    if limited and any(status.value in FINAL for status in report.by_status):
        echo_err(
            "Finished jobs are deleted after the retention period, counted from when they"
            f" finished: adjust {', '.join(limited)} before you start the service"
        )


def _legacy_document(report: "LegacyReport") -> Document:
    names = ("found", "imported", "skipped", "unreadable", "left_behind")
    kinds = {"jobs": report.jobs, "batches": report.batches}
    counts = {kind: {name: getattr(of, name) for name in names} for kind, of in kinds.items()}
    by_status = {status.value: number for status, number in report.by_status.items()}
    return {**counts, "archives": report.archives, "by_status": by_status}


def import_config(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Config file of the old service")],
    output: Annotated[
        Path | None, typer.Option(help="Where to write the settings [default: standard output]")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the output file")] = False,
) -> None:
    """Translate the config file of the previous service, and report what has no counterpart."""
    from ..migration.legacy_config import import_config, read_legacy_config

    if output is not None and output.exists():
        if output.samefile(file):
            raise InvalidParameters("--output: choose another file than the one to be imported")
        if not force:
            raise Conflict(f"{output} exists; --force replaces it")
    result = import_config(read_legacy_config(file), os.environ)
    text = f"# Imported from {file.name!r} by `secretary import-config`.\n{result.as_yaml()}"
    if output is None:
        echo(text.rstrip())
    else:
        _write_config(output, text, replace=force)
        echo_err(f"The settings are in {output}")
    _print_config_notes(result)


def _write_config(output: Path, text: str, *, replace: bool) -> None:
    """Readable for its owner only, like everything that may get a secret later."""
    target = output.with_name(f".{output.name}.new") if replace else output
    try:
        if replace:
            target.unlink(missing_ok=True)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Conflict(f"{output} exists; --force replaces it") from None
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    if replace:
        target.replace(output)


def _print_config_notes(result: "ConfigImport") -> None:
    if result.unmapped:
        echo_err("\nWithout a counterpart:")
    by_section = groupby(result.unmapped, key=lambda note: note.name.partition(".")[0])
    for number, (_, notes) in enumerate(by_section):
        lines = "\n".join(f"  {note.name}: {note.text}" for note in notes)
        echo_err(f"\n{lines}" if number else lines)
    echo_err("\nSet in the environment:")
    for note in result.variables:
        state = "set" if os.environ.get(note.name) else "not set"
        echo_err(f"  {note.name} ({state}): {note.text}")
