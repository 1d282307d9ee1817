"""Checks an installation: what works, what does not, and how to fix it."""

import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from uuid import uuid4

from pydantic import BaseModel

from ..config import (
    AccessSettings,
    ApiKeySettings,
    DocumentSettings,
    MediaSettings,
    NetworkSettings,
    Settings,
)
from ..core.errors import EngineUnavailable, InvalidSettings, NotFound, StoreUnavailable
from ..core.job import MASK, JobStatus, iso, utc_now
from ..jobs.handler import Registry
from ..llm import LlmOptions, Purpose
from ..llm.templates import Library
from ..storage.blob_store import BlobStore
from ..store import JobQuery, Store
from ..store.claims import is_alive
from ..version import __version__

T = TypeVar("T")

MEGABYTE = 1_000_000
LOW_SPACE = 1000 * MEGABYTE
#: Shorter API keys could be guessed: nothing limits how many a network of many addresses tries.
MIN_KEY_LENGTH = 16
EXPIRES_SOON = timedelta(days=14)
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
    """One result of a check; `remedy` says how to fix a problem."""

    subject: str
    verdict: Verdict
    fact: str
    remedy: str | None = None


def check_program() -> Finding:
    fact = f"Secretary {__version__}, Python {platform.python_version()}, {platform.platform()}"
    return Finding("program", Verdict.OK, fact)


def check_handlers(registry: Registry) -> Finding:
    origins = {job_type: registry[job_type].origin for job_type in sorted(registry.job_types)}
    listed = (f"{name} ({origin})" if origin else name for name, origin in origins.items())
    return Finding("handlers", Verdict.OK, ", ".join(listed))


def check_fence(mode: str, missing: Sequence[str]) -> Finding:
    """Whether the processes that read documents are confined."""
    if mode == "off":
        remedy = "Set generic_worker.fence to auto."
        return Finding("fence", Verdict.WARNING, "sandbox processes are not confined", remedy)
    if missing:
        fact = f"sandbox processes are not confined as to {'; '.join(missing)}"
        return Finding("fence", Verdict.WARNING, fact, "Use a newer Linux kernel.")
    fact = "sandbox processes reach only the files of their job, no network and no other process"
    return Finding("fence", Verdict.OK, fact)


def check_office() -> Finding:
    if (path := shutil.which("soffice")) is not None:
        return Finding("soffice", Verdict.OK, path)
    return Finding("soffice", Verdict.INFO, "not found; needed to convert office documents to PDF")


def check_ocr(options: DocumentSettings) -> Finding:
    from ..documents.ocr.engines import open_engine  # slow to import

    try:
        engine = open_engine(options.ocr_engine, options.ocr_data_directory)
        languages = engine.languages()
    except EngineUnavailable as error:
        return Finding("ocr", Verdict.WARNING, "scans and images cannot be read", error.message)
    return Finding("ocr", Verdict.OK, f"{engine.name} with data for {', '.join(languages)}")


def check_media(options: MediaSettings) -> Iterator[Finding]:
    from ..media.ffmpeg import find_ffmpeg
    from ..media.speech.engines import open_speech_engine

    try:
        yield Finding("ffmpeg", Verdict.OK, find_ffmpeg(options.ffmpeg))
    except EngineUnavailable as error:
        fact = "audio and video cannot be decoded"
        yield Finding("ffmpeg", Verdict.WARNING, fact, error.message)
    if options.speech_engine == "openai":
        return  # see check_models
    try:
        engine = open_speech_engine(options.speech_model_directory)
        engine.verify()
        languages = engine.languages()
    except EngineUnavailable as error:
        fact = "speech cannot be transcribed on this machine"
        yield Finding("speech", Verdict.WARNING, fact, error.message)
        return
    listed = ", ".join(languages) if len(languages) < 10 else f"{len(languages)} languages"
    yield Finding("speech", Verdict.OK, f"{engine.name} for {listed}")


def check_sites() -> Finding:
    from ..media.ytdlp.fetch import MISSING, find_ytdlp

    try:
        return Finding("sites", Verdict.OK, " ".join(find_ytdlp()))
    except EngineUnavailable:
        return Finding("sites", Verdict.INFO, MISSING)


#: What each language model is needed for, and the setting that names it.
PURPOSES: tuple[tuple[Purpose, str, str], ...] = (
    ("chat", "llm.model", "translations and generated text"),
    ("vision", "llm.model", "extraction methods with `llm`"),
    ("transcription", "llm.transcription_model", "transcription by an endpoint"),
    ("ocr", "llm.ocr_model", "PDFs read by an OCR endpoint"),
    ("embedding", "llm.embedding_model", "embeddings of texts"),
    ("image", "llm.image_model", "generated images"),
)


def check_models(options: LlmOptions) -> Iterator[Finding]:
    """Does not contact the endpoints, as requests may cost money."""
    for purpose, setting, needed_for in PURPOSES:
        if (model := options.models.get(purpose)) is None:
            fact = f"no model configured ({setting}); needed for {needed_for}"
            yield Finding(purpose, Verdict.INFO, fact)
        else:
            key = "with a key" if model.provider.api_key else "without a key"
            fact = f"{model.name} at {model.provider.base_url}, {key}"
            yield Finding(purpose, Verdict.OK, fact)


#: Also logged when a process starts.
PRIVATE_ALLOWED = (
    "network.allow_private is on: whoever may submit a job can make this service send requests to"
    " this machine and to local networks"
)


def check_network(options: NetworkSettings) -> Iterator[Finding]:
    if options.allow_private:
        remedy = "Use it for development only; network.allow_hosts allows single hosts."
        yield Finding("network", Verdict.WARNING, PRIVATE_ALLOWED, remedy)


def check_keys(options: AccessSettings, now: datetime) -> Iterator[Finding]:
    """Find keys that can be guessed, have expired or will soon; name them by their position."""
    for number, setting in enumerate(options.api_keys, start=1):
        name = f"Key {number} in access.api_keys"
        key = setting.key if isinstance(setting, ApiKeySettings) else setting.partition(":")[0]
        if len(key) < MIN_KEY_LENGTH:
            remedy = "Replace it with a random one, such as the output of `openssl rand -hex 32`."
            fact = f"{name} has only {len(key)} characters"
            yield Finding("keys", Verdict.WARNING, fact, remedy)
        expires_at = setting.expires_at if isinstance(setting, ApiKeySettings) else None
        if expires_at is not None and expires_at < now + EXPIRES_SOON:
            fact = f"{name} {'expired' if expires_at <= now else 'expires'} at {iso(expires_at)}"
            remedy = "Add a new key, switch the clients to it, and remove the old one."
            yield Finding("keys", Verdict.WARNING, fact, remedy)


def check_templates(library: Library) -> Finding:
    if library.directory is not None and not library.directory.is_dir():
        fact = f"{library.directory} is not a directory"
        remedy = "Create it, or change templates.directory."
        return Finding("templates", Verdict.PROBLEM, fact, remedy)
    listed = library.listed()
    own = sum(template.origin == "own" for template in listed)
    if invalid := [template.name for template in listed if template.faults]:
        remedy = "`secretary template check` shows what is wrong."
        return Finding("templates", Verdict.WARNING, f"invalid: {', '.join(invalid)}", remedy)
    return Finding("templates", Verdict.OK, f"{len(listed)}, {own} of your own")


def check_directory(directory: Path, *, embedded_store: bool) -> Iterator[Finding]:
    """Whether the data directory exists, is writable, has space, and suits a database."""
    if not directory.is_dir():
        if directory.exists():
            remedy = "Remove it, or set storage.data_dir to a directory."
            yield Finding("data", Verdict.PROBLEM, f"{directory} is not a directory", remedy)
        else:
            fact = f"{directory} does not exist yet; startup creates it"
            yield Finding("data", Verdict.INFO, fact)
        return
    if os.access(directory, os.W_OK | os.X_OK):
        yield Finding("data", Verdict.OK, f"{directory} is writable")
    else:
        remedy = "Give this user write permission, or change storage.data_dir."
        yield Finding("data", Verdict.PROBLEM, f"{directory} is not writable", remedy)
    yield check_disk_space(shutil.disk_usage(directory).free)
    kind = file_system(directory, Path("/proc/mounts"))
    if kind is not None:
        yield check_file_system(kind, embedded_store=embedded_store)


def check_disk_space(free_bytes: int) -> Finding:
    fact = f"{free_bytes / MEGABYTE:,.0f} MB free"
    if free_bytes >= LOW_SPACE:
        return Finding("disk", Verdict.OK, fact)
    verdict = Verdict.PROBLEM if free_bytes < CRITICAL_SPACE else Verdict.WARNING
    return Finding("disk", verdict, fact, "Free some space, or reduce the days in `retention`.")


def file_system(directory: Path, mounts: Path) -> str | None:
    """The type of the file system a directory is on; None if unknown."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return None
    kinds = {
        mount_point.replace("\\040", " "): kind
        for _, mount_point, kind, *_ in (line.split(" ") for line in lines)
    }
    above = [point for point in kinds if directory.resolve().is_relative_to(point)]
    return kinds[max(above, key=len)] if above else None


def check_file_system(kind: str, *, embedded_store: bool) -> Finding:
    if kind not in NETWORK_FILE_SYSTEMS:
        return Finding("file system", Verdict.OK, kind)
    fact = f"{kind}: a network file system"
    if not embedded_store:
        return Finding("file system", Verdict.INFO, fact)
    remedy = "Use a local disk, or MongoDB: SQLite's locks are unreliable over a network."
    return Finding("file system", Verdict.PROBLEM, fact, remedy)


async def check_store(store: Store) -> list[Finding]:
    try:
        facts = await store.describe()
        jobs = (await store.find(JobQuery(limit=1))).items
        newest = jobs[0].created_at if jobs else None
        return [
            *check_store_facts(facts),
            check_clock(utc_now(), server=facts.get("server_time"), newest=newest),
            *await _check_jobs(store),
        ]
    except StoreUnavailable as error:
        return [store_problem(error)]


def store_problem(error: StoreUnavailable) -> Finding:
    remedy = "The service cannot start without its store; see docs/how-to/operate.md."
    return Finding("store", Verdict.PROBLEM, str(error), remedy)


async def check_blob_store(blob_store: BlobStore) -> Finding:
    """Whether a file can be written, read back and removed."""
    prefix, written = f"doctor/{uuid4().hex}/", uuid4().bytes
    key = f"{prefix}probe"
    try:
        with TemporaryDirectory(prefix="secretary-") as directory:
            probe = Path(directory) / "probe"
            probe.write_bytes(written)
            await blob_store.put([(key, probe)])
        blob = await blob_store.find(key)
        content = b"".join([chunk async for chunk in blob_store.read(blob)]) if blob else None
        await blob_store.remove(prefix)
        remaining = await blob_store.find(key)
    except (StoreUnavailable, NotFound) as error:
        return files_problem(error)
    if blob is None:
        fault = "a written file is missing"
    elif content != written:
        fault = "a written file has other content"
    elif remaining is not None:
        fault = "a removed file is still there"
    else:
        return Finding("files", Verdict.OK, f"{blob_store.kind}: wrote, read and removed a file")
    remedy = "The storage must be strongly consistent; use another one."
    return Finding("files", Verdict.PROBLEM, f"{blob_store.kind}: {fault}", remedy)


def files_problem(error: InvalidSettings | StoreUnavailable | NotFound) -> Finding:
    remedy = "Jobs with files will fail; see storage.files in docs/reference/settings.md."
    return Finding("files", Verdict.PROBLEM, str(error), remedy)


def check_store_facts(facts: Mapping[str, Any]) -> Iterator[Finding]:
    if facts["kind"] != "sqlite":
        listed = {key: value for key, value in facts.items() if key not in ("kind", "server_time")}
        fact = "MongoDB: " + ", ".join(f"{key} {value}" for key, value in listed.items())
        if facts.get("topology") == "standalone":
            remedy = "Convert it to a replica set (of one member, if need be): a standalone server"
            remedy += " has no change streams and can lose acknowledged writes."
            yield Finding("store", Verdict.WARNING, fact, remedy)
        else:
            yield Finding("store", Verdict.OK, fact)
        return
    yield check_sqlite(facts["sqlite_version"])
    fact = (
        f"{facts['path']}: {facts['bytes'] / MEGABYTE:,.1f} MB, schema {facts['schema_version']},"
        f" journal {facts['journal_mode']}, check {facts['quick_check']}"
    )
    if facts["quick_check"] != "ok":
        remedy = "The file is corrupt: stop all processes and restore a backup."
        yield Finding("store", Verdict.PROBLEM, fact, remedy)
    elif facts["journal_mode"] != "wal":
        remedy = "The disk or another program prevents WAL mode; writes are slow and block reads."
        yield Finding("store", Verdict.WARNING, fact, remedy)
    else:
        yield Finding("store", Verdict.OK, fact)


def check_sqlite(version: str) -> Finding:
    number = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if WAL_RESET_BUG[0] <= number <= WAL_RESET_BUG[1]:
        fact = f"{version}: concurrent writers can lose a commit (WAL-reset bug)"
        remedy = "Upgrade the package apsw to 3.53 or newer."
        return Finding("sqlite", Verdict.PROBLEM, fact, remedy)
    return Finding("sqlite", Verdict.OK, version)


def check_clock(
    now: datetime, *, server: datetime | None = None, newest: datetime | None = None
) -> Finding:
    """`server` is the time of the database server, `newest` that of the newest job."""
    fact = f"{now.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    remedy = "Synchronize the clock of this machine, preferably with NTP."
    if now.year not in PLAUSIBLE_YEARS:
        return Finding("clock", Verdict.PROBLEM, fact, remedy)
    if server is not None and abs(server - now) > CLOCK_TOLERANCE:
        fact += f", {(now - server).total_seconds():+.0f} s off the database server"
        return Finding("clock", Verdict.WARNING, fact, remedy)
    if newest is not None and newest - now > CLOCK_TOLERANCE:
        fact += ", but there are jobs from the future: the clock was set back"
        return Finding("clock", Verdict.WARNING, fact, remedy)
    return Finding("clock", Verdict.OK, fact)


async def _check_jobs(store: Store) -> list[Finding]:
    counts = await store.counts()
    waiting = sum(by_status.get(JobStatus.PENDING, 0) for by_status in counts.values())
    running = sum(by_status.get(JobStatus.PROCESSING, 0) for by_status in counts.values())
    fact, now = f"{waiting:,} waiting, {running:,} running", utc_now()
    for words, age in WAIT_THRESHOLDS.items() if waiting else ():
        query = JobQuery(status=frozenset({JobStatus.PENDING}), created_before=now - age, limit=100)
        oldest = (await store.find(query)).items
        if any(job.run_at is None or job.run_at < now - age for job in oldest):
            fact += f", the oldest for over {words}"
            break
    jobs = Finding("jobs", Verdict.OK, fact)
    alive = [worker for worker in await store.workers() if is_alive(worker)]
    if not alive:
        remedy = "Start one: `secretary worker`, or `secretary serve`, which includes one."
        verdict = Verdict.WARNING if waiting else Verdict.INFO
        return [Finding("workers", verdict, "none is running", remedy), jobs]
    listed = []
    for worker in alive:
        ago = max(0, int((now - worker.seen_at).total_seconds()))  # its clock may be ahead of ours
        listed.append(f"{worker.worker_id} ({worker.slots} slots, seen {ago} s ago)")
    return [Finding("workers", Verdict.OK, "; ".join(listed)), jobs]


def worst(findings: list[Finding]) -> Verdict:
    return max((finding.verdict for finding in findings), key=list(Verdict).index)


#: Settings with such a name are secrets, including future ones.
SECRET = re.compile(r"key|token|secret|password|passwd|credential|_uri$|authorization", re.I)
#: Exceptions: settings with such a name that are not secret.
PLAIN = frozenset({"context_tokens"})
#: Only scheme, host and path of a URL are shown, not user, password and options. A URL with a stray
#: `@` does not match and is hidden as a whole.
URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<user>[^/?#@]*@)?(?P<location>[^?#@]*)(?P<options>[?#][^@]*)?",
    re.I,
)
#: Shorter secrets are not searched for in texts: they would match too many words.
MIN_SECRET_LENGTH = 4
#: Values of parameters and options from this length on may be secrets; `auto` and `admin` are not.
LIKELY_SECRET_LENGTH = 12


def visible_settings(settings: Settings) -> dict[str, Any]:
    """The settings by group and name, with secrets masked."""
    visible: dict[str, Any] = _visible("", settings)
    return redact(visible, settings)


def redact(value: T, settings: Settings) -> T:
    """Remove all secrets of the settings from a value, wherever they occur in its texts."""
    secrets = sorted(set(_secrets(settings.model_dump(mode="json"))), key=len, reverse=True)
    long_enough = [secret for secret in secrets if len(secret) >= MIN_SECRET_LENGTH]
    redacted: T = _without(long_enough, value)
    return redacted


def _visible(name: str, value: Any) -> Any:
    match value:
        case BaseModel():
            names = type(value).model_fields
            return {inner: _visible(inner, getattr(value, inner)) for inner in names}
        case None | bool() | int() | float():
            return value
        case _ if name.endswith("_parameters"):  # sent to an endpoint; they may contain anything
            return {
                key: one if isinstance(one, int | float | None) else MASK
                for key, one in value.items()
            }
        case tuple() | list() if _is_secret(name):
            return [_visible_key(one) for one in value]
        case dict() if not _is_secret(name):
            return {key: _visible(name, one) for key, one in value.items()}
        case tuple() | list():
            return [_visible(name, one) for one in value]
    text = str(value)
    if not _is_secret(name) and "://" not in text:
        return text
    address = URL.fullmatch(text)
    return f"{address['scheme']}://{address['location']}" if address else MASK


def _visible_key(setting: str | ApiKeySettings) -> str:
    """An API key: only its user and its limits."""
    if isinstance(setting, str):
        shown = [setting.partition(":")[2]]
    else:
        until = f"until {iso(setting.expires_at)}" if setting.expires_at else ""
        has_all = set(setting.scopes) == set(ApiKeySettings.model_fields["scopes"].default)
        shown = [setting.user or "", "" if has_all else ", ".join(setting.scopes), until]
    details = "; ".join(filter(None, shown))
    return f"{MASK} ({details})" if details else MASK


def _is_secret(name: str) -> bool:
    return name not in PLAIN and SECRET.search(name) is not None


def _secrets(value: Any, name: str = "") -> Iterator[str]:
    """Every secret text in the settings."""
    match value:
        case dict():
            inside = name if name.endswith("_parameters") else ""
            for key, one in value.items():
                yield from _secrets(one, inside or str(key))
        case list():
            for one in value:
                yield from _secrets(one, name)
        case str() if name.endswith("_parameters"):
            if len(value) >= LIKELY_SECRET_LENGTH:
                yield value
        case str() if "://" in value:
            address = URL.fullmatch(value)
            if address and address["user"]:
                yield from filter(None, address["user"].rstrip("@").split(":", 1))
            if address and address["options"]:
                values = re.findall(r"=([^&#]+)", address["options"])
                yield from (value for value in values if len(value) >= LIKELY_SECRET_LENGTH)
        case str() if _is_secret(name):
            yield value.partition(":")[0]


def _without(secrets: list[str], value: Any) -> Any:
    match value:
        case str():
            for secret in secrets:
                value = value.replace(secret, MASK)
            return value
        case dict():
            return {key: _without(secrets, one) for key, one in value.items()}
        case list():
            return [_without(secrets, one) for one in value]
    return value
