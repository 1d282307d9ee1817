"""Looks at an installation and says what is well, what is not, and what to do about it."""

import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from ..config import DocumentSettings, MediaSettings
from ..core.errors import EngineUnavailable, InvalidSettings, NotFound, StoreUnavailable
from ..core.job import JobStatus, utc_now
from ..jobs.registry import Registry
from ..llm import LlmOptions, Purpose
from ..llm.templates import Library
from ..storage.blob_store import BlobStore
from ..store import JobQuery, Store
from ..store.claims import is_alive
from ..version import __version__

MEGABYTE = 1_000_000
LOW_SPACE = 1000 * MEGABYTE
CRITICAL_SPACE = 100 * MEGABYTE

#: File systems on which SQLite's locks cannot be relied on.
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "ceph", "glusterfs", "afs"}
)

#: https://sqlite.org/wal.html#walresetbug: two writers could lose a commit.
WAL_RESET_BUG = ((3, 7, 0), (3, 51, 2))

CLOCK_TOLERANCE = timedelta(seconds=5)
PLAUSIBLE_YEARS = range(2025, 2100)
WAIT_THRESHOLDS = {
    "a day": timedelta(days=1),
    "an hour": timedelta(hours=1),
    "ten minutes": timedelta(minutes=10),
    "a minute": timedelta(minutes=1),
}


class Verdict(StrEnum):
    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """`remedy` says what to do when the verdict is not good."""

    subject: str
    verdict: Verdict
    fact: str
    remedy: str | None = None


def check_program() -> Finding:
    fact = f"Secretary {__version__}, Python {platform.python_version()}, {platform.platform()}"
    return Finding("program", Verdict.OK, fact)


def check_handlers(registry: Registry) -> Finding:
    return Finding("handlers", Verdict.OK, ", ".join(sorted(registry.job_types)))


def check_office() -> Finding:
    if (path := shutil.which("soffice")) is not None:
        return Finding("soffice", Verdict.OK, path)
    return Finding("soffice", Verdict.INFO, "not found: needed for office documents as PDF")


def check_ocr(options: DocumentSettings) -> Finding:
    from ..documents.ocr.engines import open_engine  # it is heavy, and nothing else here needs it

    try:
        engine = open_engine(options.ocr_engine, options.ocr_data_directory)
        languages = engine.languages()
    except EngineUnavailable as error:
        return Finding("ocr", Verdict.WARNING, "scans and pictures cannot be read", error.message)
    return Finding("ocr", Verdict.OK, f"{engine.name}, with data for {', '.join(languages)}")


def check_media(options: MediaSettings) -> Iterator[Finding]:
    from ..media.ffmpeg import program_at
    from ..media.speech.engines import open_speech_engine

    try:
        yield Finding("ffmpeg", Verdict.OK, program_at(options.ffmpeg))
    except EngineUnavailable as error:
        fact = "sound and video cannot be decoded"
        yield Finding("ffmpeg", Verdict.WARNING, fact, error.message)
    if options.speech_engine == "openai":
        return  # told with the models
    try:
        engine = open_speech_engine(model_directory=options.speech_model_directory)
        languages = engine.languages()
    except EngineUnavailable as error:
        fact = "no speech is recognised on this machine"
        yield Finding("speech", Verdict.WARNING, fact, error.message)
        return
    told = ", ".join(languages) if len(languages) < 10 else f"{len(languages)} languages"
    yield Finding("speech", Verdict.OK, f"{engine.name}, understands {told}")


def check_sites() -> Finding:
    from ..media.ytdlp.process import MISSING, found

    try:
        return Finding("sites", Verdict.OK, " ".join(found()))
    except EngineUnavailable:
        return Finding("sites", Verdict.INFO, MISSING)


#: What a language model is needed for, and the setting that names one.
PURPOSES: tuple[tuple[Purpose, str, str], ...] = (
    ("chat", "llm.model", "translations and all that a model writes"),
    ("vision", "llm.model", "the methods with llm"),
    ("transcription", "llm.transcription_model", "speech that an endpoint recognises"),
)


def check_models(options: LlmOptions) -> Iterator[Finding]:
    """Told without asking the endpoints: that might cost something."""
    for purpose, setting, needed_for in PURPOSES:
        if (model := options.models.get(purpose)) is None:
            fact = f"no model is set ({setting}): needed for {needed_for}"
            yield Finding(purpose, Verdict.INFO, fact)
        else:
            key = "with a key" if model.provider.api_key else "without a key"
            fact = f"{model.name} at {model.provider.base_url}, {key}"
            yield Finding(purpose, Verdict.OK, fact)


def check_templates(library: Library) -> Finding:
    if library.directory is not None and not library.directory.is_dir():
        fact = f"{library.directory} is not a directory"
        remedy = "Make it, or set templates.directory to another."
        return Finding("templates", Verdict.PROBLEM, fact, remedy)
    listed = library.listed()
    own = sum(one.origin == "own" for one in listed)
    if faulty := [one.name for one in listed if one.faults]:
        remedy = "`secretary template check` tells what is wrong with them."
        return Finding("templates", Verdict.WARNING, f"cannot be used: {', '.join(faulty)}", remedy)
    return Finding("templates", Verdict.OK, f"{len(listed)}, {own} of your own")


def check_directory(directory: Path, *, embedded_store: bool) -> Iterator[Finding]:
    """Is the data directory there, writable, roomy, and on a disk that a database may live on?"""
    if not directory.is_dir():
        if directory.exists():
            remedy = "Move it away, or set storage.data_dir to a directory."
            yield Finding("data", Verdict.PROBLEM, f"{directory} is not a directory", remedy)
        else:
            yield Finding("data", Verdict.INFO, f"{directory} is not there yet; a start makes it")
        return
    if os.access(directory, os.W_OK | os.X_OK):
        yield Finding("data", Verdict.OK, f"{directory} can be written")
    else:
        remedy = "Give this user the right to write there, or set storage.data_dir."
        yield Finding("data", Verdict.PROBLEM, f"{directory} cannot be written", remedy)
    yield check_disk_space(shutil.disk_usage(directory).free)
    kind = file_system(directory, Path("/proc/mounts"))
    if kind is not None:
        yield check_file_system(kind, embedded_store=embedded_store)


def check_disk_space(free_bytes: int) -> Finding:
    fact = f"{free_bytes / MEGABYTE:,.0f} MB free"
    remedy = "Free some space, or set the days of `retention` lower."
    if free_bytes < CRITICAL_SPACE:
        return Finding("disk", Verdict.PROBLEM, fact, remedy)
    if free_bytes < LOW_SPACE:
        return Finding("disk", Verdict.WARNING, fact, remedy)
    return Finding("disk", Verdict.OK, fact)


def file_system(directory: Path, mounts: Path) -> str | None:
    """The kind of file system a directory is on; None where nobody tells."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return None
    found: tuple[int, str] | None = None
    for line in lines:
        _, point, kind = line.split(" ")[:3]
        point = point.replace("\\040", " ")
        if directory.resolve().is_relative_to(point) and len(point) >= (found or (0,))[0]:
            found = (len(point), kind)
    return found[1] if found else None


def check_file_system(kind: str, *, embedded_store: bool) -> Finding:
    if kind not in NETWORK_FILE_SYSTEMS:
        return Finding("file system", Verdict.OK, kind)
    if embedded_store:
        remedy = "Use a local disk, or MongoDB: SQLite's locks do not hold over a network."
        return Finding("file system", Verdict.PROBLEM, f"{kind}: a network file system", remedy)
    return Finding("file system", Verdict.INFO, f"{kind}: a network file system")


async def check_store(store: Store) -> list[Finding]:
    try:
        facts = await store.describe()
        return [
            *check_store_facts(facts),
            check_clock(utc_now(), server=facts.get("server_time"), newest=await _newest(store)),
            *await _look_at_work(store),
        ]
    except StoreUnavailable as error:
        return [store_problem(error)]


def store_problem(error: StoreUnavailable) -> Finding:
    remedy = "Without its store the service cannot start; see docs/how-to/operate.md."
    return Finding("store", Verdict.PROBLEM, str(error), remedy)


async def check_blob_store(blob_store: BlobStore) -> Finding:
    """Is what is put there found again as it was, and gone when it is removed?"""
    prefix, said = f"doctor/{uuid4().hex}/", uuid4().bytes
    key = f"{prefix}probe"
    try:
        with TemporaryDirectory(prefix="secretary-") as directory:
            probe = Path(directory) / "probe"
            probe.write_bytes(said)
            await blob_store.put([(key, probe)])
        kept = await blob_store.find(key)
        heard = b"".join([piece async for piece in blob_store.read(kept)]) if kept else None
        await blob_store.remove(prefix)
        left = await blob_store.find(key)
    except (StoreUnavailable, NotFound) as error:
        return files_problem(error)
    if heard != said or left is not None:
        what = "is not there" if kept is None else "is another" if heard != said else "stays"
        remedy = "All machines must see at once what one of them does there: use another place."
        fact = f"{blob_store.kind}: a file that was just written or removed {what}"
        return Finding("files", Verdict.PROBLEM, fact, remedy)
    return Finding("files", Verdict.OK, f"{blob_store.kind}: a file was put, read and removed")


def files_problem(error: InvalidSettings | StoreUnavailable | NotFound) -> Finding:
    remedy = "See storage.files in docs/reference/settings.md; jobs with files cannot work so."
    return Finding("files", Verdict.PROBLEM, str(error), remedy)


def check_store_facts(facts: Mapping[str, Any]) -> Iterator[Finding]:
    if facts["kind"] == "sqlite":
        yield check_sqlite(facts["sqlite_version"])
        yield _judge_database(facts)
    else:
        yield from _judge_mongodb(facts)


def check_sqlite(version: str) -> Finding:
    number = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if WAL_RESET_BUG[0] <= number <= WAL_RESET_BUG[1]:
        fact = f"{version}: can lose a commit when several processes write (WAL-reset bug)"
        return Finding("sqlite", Verdict.PROBLEM, fact, "Upgrade the package apsw: 3.53 or newer.")
    return Finding("sqlite", Verdict.OK, version)


def _judge_database(facts: Mapping[str, Any]) -> Finding:
    fact = (
        f"{facts['path']}: {facts['bytes'] / MEGABYTE:,.1f} MB, schema {facts['schema_version']},"
        f" journal {facts['journal_mode']}, check {facts['quick_check']}"
    )
    if facts["quick_check"] != "ok":
        remedy = "The file is damaged: stop all processes and restore a backup."
        return Finding("store", Verdict.PROBLEM, fact, remedy)
    if facts["journal_mode"] != "wal":
        remedy = "Its disk or another program forbids WAL; writing is slow and blocks reading."
        return Finding("store", Verdict.WARNING, fact, remedy)
    return Finding("store", Verdict.OK, fact)


def _judge_mongodb(facts: Mapping[str, Any]) -> Iterator[Finding]:
    shown = {key: value for key, value in facts.items() if key not in ("kind", "server_time")}
    fact = "MongoDB: " + ", ".join(f"{key} {value}" for key, value in shown.items())
    if facts.get("topology") == "standalone":
        remedy = "Make it a replica set (of one, if need be): a standalone server gives no notice"
        remedy += " of new jobs and can lose what it has acknowledged."
        yield Finding("store", Verdict.WARNING, fact, remedy)
    else:
        yield Finding("store", Verdict.OK, fact)


def check_clock(
    now: datetime, *, server: datetime | None = None, newest: datetime | None = None
) -> Finding:
    """`server` is the database server's time, `newest` when the newest job was created."""
    fact = f"{now.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    remedy = "Set the clock of this machine, best by NTP."
    if now.year not in PLAUSIBLE_YEARS:
        return Finding("clock", Verdict.PROBLEM, fact, remedy)
    if server is not None and abs(server - now) > CLOCK_TOLERANCE:
        fact += f", which is {(now - server).total_seconds():+.0f} s off the database server's"
        return Finding("clock", Verdict.WARNING, fact, remedy)
    if newest is not None and newest - now > CLOCK_TOLERANCE:
        fact += ", but there are jobs from the future: it was set back"
        return Finding("clock", Verdict.WARNING, fact, remedy)
    return Finding("clock", Verdict.OK, fact)


async def _newest(store: Store) -> datetime | None:
    page = await store.find(JobQuery(limit=1))
    return page.items[0].created_at if page.items else None


async def _look_at_work(store: Store) -> list[Finding]:
    counts = await store.counts()
    waiting = sum(by_status.get(JobStatus.PENDING, 0) for by_status in counts.values())
    running = sum(by_status.get(JobStatus.PROCESSING, 0) for by_status in counts.values())
    fact = f"{waiting:,} waiting, {running:,} running"
    if waiting and (waited := await _longest_wait(store)) is not None:
        fact += f", the oldest for more than {waited}"
    return [await _look_at_workers(store, waiting), Finding("jobs", Verdict.OK, fact)]


async def _look_at_workers(store: Store, waiting: int) -> Finding:
    now = utc_now()
    alive = [worker for worker in await store.workers() if is_alive(worker)]
    if not alive:
        remedy = "Start one: secretary worker (or secretary serve, which brings one along)."
        verdict = Verdict.WARNING if waiting else Verdict.INFO
        return Finding("workers", verdict, "none is running", remedy)
    told = (
        f"{worker.worker_id} ({worker.slots} slots, seen {_seconds(now - worker.seen_at)} s ago)"
        for worker in alive
    )
    return Finding("workers", Verdict.OK, "; ".join(told))


def _seconds(ago: timedelta) -> int:
    """None less than nothing: the clock that tells of it may be ahead of ours."""
    return max(0, int(ago.total_seconds()))


async def _longest_wait(store: Store) -> str | None:
    """About how long the oldest job that could start has been waiting."""
    now = utc_now()
    for words, age in WAIT_THRESHOLDS.items():
        query = JobQuery(status=frozenset({JobStatus.PENDING}), created_before=now - age, limit=100)
        page = await store.find(query)
        if any(job.run_at is None or job.run_at < now - age for job in page.items):
            return words
    return None


def worst(findings: list[Finding]) -> Verdict:
    return max((finding.verdict for finding in findings), key=list(Verdict).index)
