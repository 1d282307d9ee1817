"""The handler API: what a handler is, the context it runs in, and the registry of handlers."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from pydantic import AliasChoices, BaseModel, ConfigDict, ValidationError

from ..config import DocumentSettings, MediaSettings
from ..core import errors
from ..core.job import (
    Job,
    JobError,
    JobStatus,
    LogEntry,
    LogLevel,
    Progress,
    ResourceCalculator,
    flatten_parameters,
    normalize_parameters,
)
from ..core.json_codec import clean_texts
from ..llm import Llm
from ..llm.templates import Library
from ..storage.artifacts import ArtifactSync
from ..storage.cache import Cache, CacheEntry
from ..storage.sources import SourceFile, Sources, parse_source
from .job_log import format_seconds, source_line

logger = logging.getLogger(__name__)

P = TypeVar("P", bound=BaseModel)
P_co = TypeVar("P_co", bound=BaseModel, covariant=True)
T = TypeVar("T")
Results = BaseModel | Mapping[str, Any] | None

DEFAULT_MAX_ATTEMPTS = 3
DEFAULT_DOCUMENTS = DocumentSettings()
DEFAULT_MEDIA = MediaSettings()
#: Suffix of the scratch directory of an attempt.
SCRATCH_SUFFIX = ".scratch"


class AnyParameters(BaseModel):
    """For handlers without a parameter model: everything is accepted."""

    model_config = ConfigDict(extra="allow")


class Reporter(Protocol):
    """Receives progress and logs of a running job. Never blocks; frequent updates are merged."""

    def progress(self, progress: Progress) -> None: ...
    def log(self, entry: LogEntry) -> None: ...


@dataclass(frozen=True, slots=True)
class FileGrants:
    """The files that sandbox processes of a job may use, beside its own directories."""

    readable: set[str] = field(default_factory=set)
    writable: set[str] = field(default_factory=set)


class Runner(Protocol):
    """Runs heavy work where it can neither block nor crash the worker."""

    async def __call__(
        self,
        function: Callable[..., T | Awaitable[T]],
        *args: Any,
        wall_time: timedelta | None = None,
    ) -> T: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(Generic[P_co]):
    """Everything a handler needs to run one job. It has no access to the store."""

    job: Job
    parameters: P_co
    resources: ResourceCalculator
    reporter: Reporter
    #: `await ctx.run(function, *args)` for CPU-bound work and for code that may crash.
    run: Runner
    attempt_directory: str
    sources: Sources
    cache: Cache
    documents: DocumentSettings = DEFAULT_DOCUMENTS
    media: MediaSettings = DEFAULT_MEDIA
    #: How many calls of `run` are processed in parallel.
    processes: int = 1
    #: The configured language models, if any.
    llm: Llm = field(default_factory=Llm)
    templates: Library = field(default_factory=Library)
    grants: FileGrants = field(default_factory=FileGrants)
    #: Shares files with other machines, where there are any.
    artifact_sync: ArtifactSync | None = None

    @property
    def directory(self) -> Path:
        """For the artifacts of this attempt: kept if the job completes, otherwise removed."""
        directory = Path(self.attempt_directory)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    @property
    def scratch(self) -> Path:
        """For temporary files, removed when the attempt ends."""
        directory = Path(self.attempt_directory + SCRATCH_SUFFIX)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    async def progress(self, step: str, percent: int, message: str = "") -> None:
        self.reporter.progress(Progress(step=step, percent=percent, message=message))

    async def source(self) -> SourceFile:
        """The input file: uploaded, downloaded or local. Do not modify it."""
        parameters: Any = self.parameters
        file = await self._logged(
            parse_source(parameters),
            self.sources.fetch(parameters, job_id=self.job.job_id, into=self.scratch),
        )
        self.grants.readable.add(str(file.path))
        self.grants.writable.add(str(self.directory))
        return file

    async def download(self, url: str, name: str) -> SourceFile:
        """A further file of the job, as `name` in its scratch directory."""
        return await self._logged(("url", url), self.sources.download(url, self.scratch / name))

    async def _logged(self, source: tuple[str, Any], fetching: Awaitable[SourceFile]) -> SourceFile:
        started, (kind, value) = time.monotonic(), source
        file = await fetching
        origin = {"upload": "uploaded", "path": "a local file"}.get(kind)
        if origin is None:
            seconds = format_seconds(time.monotonic() - started)
            origin = f"downloaded from {urlsplit(str(value)).hostname} in {seconds}"
        size = await asyncio.to_thread(lambda: file.path.stat().st_size)
        await self.log(source_line(file.name, size, origin))
        return file

    async def entry(
        self, kind: str, sha256: str, method: str, *, options: Mapping[str, Any], version: str
    ) -> CacheEntry:
        """The cache entry for this work, including what other machines have stored in it."""
        entry = await asyncio.to_thread(
            self.cache.entry, kind, sha256, method, options=options, version=version
        )
        self.grants.writable.add(str(entry.directory))
        return await self.artifact_sync.download_entry(entry) if self.artifact_sync else entry

    async def log(self, message: str, level: LogLevel = "info") -> None:
        self.reporter.log(LogEntry(level=level, message=message))


@dataclass(frozen=True, slots=True)
class Handler(Generic[P]):
    """An async function, the job type it handles and the model of its parameters."""

    job_type: str
    parameters: type[P]
    run: Callable[[JobContext[P]], Awaitable[Results]]
    timeout: timedelta | None = None
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    #: Run in a sandbox process, where it may block, crash or use much memory. Otherwise it runs on
    #: the worker's event loop: for trusted async code that only waits for I/O.
    isolated: bool = True
    #: Its jobs wait for the network most of the time, so they have slots of their own and do not
    #: queue behind jobs that compute for hours.
    io_bound: bool = False
    #: The `module:function` that registered it, so that a sandbox process can load it. None for
    #: built-in handlers, which send their heavy work to the sandbox themselves.
    origin: str | None = None

    def parse(self, parameters: Mapping[str, Any]) -> P:
        """Validate parameters, both on submission and before a run."""
        try:
            return self.parameters.model_validate(flatten_parameters(parameters))
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            texts = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems)
            message = "Invalid parameters: " + "; ".join(texts)
            raise errors.InvalidParameters(message, problems=problems) from None

    def normalize(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters as they are stored."""
        known = None if self.parameters is AnyParameters else field_names(self.parameters)
        return normalize_parameters(parameters, known)


@cache
def field_names(model: type[BaseModel]) -> frozenset[str]:
    """The names of the fields in every spelling that the model accepts."""
    names: set[str] = set()
    for name, info in model.model_fields.items():
        alias = info.validation_alias
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
        names |= {name, *(choice for choice in choices if isinstance(choice, str))}
    return frozenset(names)


@cache
def ignored_field_names(model: type[BaseModel]) -> frozenset[str]:
    """Fields that clients send and no handler reads, in lower case and without underscores: the
    `ignored_fields` of the model and of all its base classes."""
    listed = (vars(base).get("ignored_fields", ()) for base in model.__mro__)
    return frozenset(name.replace("_", "").lower() for names in listed for name in names)


def handles(
    job_type: str,
    parameters: type[P] = AnyParameters,  # type: ignore[assignment]  # the default for P
    *,
    timeout: timedelta | None = None,
    max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    isolated: bool = True,
    io_bound: bool = False,
) -> Callable[[Callable[[JobContext[P]], Awaitable[Results]]], Handler[P]]:
    """Turn an async function into a `Handler`; see `Registry` for how it is registered."""
    return lambda run: Handler(job_type, parameters, run, timeout, max_attempts, isolated, io_bound)


async def run_in_thread(
    function: Callable[..., T | Awaitable[T]], *args: Any, wall_time: timedelta | None = None
) -> T:
    """The `Runner` inside a sandbox process, which runs one job only."""
    seconds = wall_time.total_seconds() if wall_time else None
    try:
        async with asyncio.timeout(seconds):
            result = await asyncio.to_thread(function, *args)
            return await result if isinstance(result, Awaitable) else result
    except TimeoutError:
        if seconds is None:
            raise
        text = f"The work exceeded its limit of {seconds:g} seconds."
        raise errors.ProcessingTimeout(text, limit_seconds=seconds) from None


def results_as_json(results: Results) -> dict[str, Any] | None:
    """The results as they are stored, without control characters."""
    if results is None:
        return None
    document = results.model_dump(mode="json") if isinstance(results, BaseModel) else dict(results)
    try:
        return clean_texts(document)
    except RecursionError:  # nested too deeply to be stored
        return document


LegacyHandler = Callable[[Any, Any, ResourceCalculator], Awaitable[None]]


class LegacyParameters(dict[str, Any]):
    """Parameters as legacy handlers read them: by key, by attribute, or under `extra`."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)

    @property
    def extra(self) -> dict[str, Any]:
        extra = self.get("extra")
        return {**flatten_parameters(self), **(extra if isinstance(extra, dict) else {})}


class LegacyRepo:
    """The repository that a legacy handler calls, bound to the job it runs.

    It records progress, results and error; the executor alone sets the status.
    """

    def __init__(self, ctx: JobContext[Any]) -> None:
        self._ctx = ctx
        self.results: dict[str, Any] | None = None
        self.failure: errors.JobFailed | None = None

    def get_job(self, job_id: str) -> Job:
        return self._ctx.job

    def add_log_entry(self, job_id: str, level: LogLevel, message: str) -> bool:
        self._ctx.reporter.log(LogEntry(level=level, message=str(message)))
        return True

    def update_job_status(
        self,
        job_id: str,
        status: JobStatus | str,
        progress: Progress | Mapping[str, Any] | None = None,
        results: Mapping[str, Any] | None = None,
        error: JobError | Mapping[str, Any] | None = None,
        **_: Any,
    ) -> bool:
        if progress is not None:
            self._ctx.reporter.progress(Progress.model_validate(progress))
        if results is not None:
            self.results = {**(self.results or {}), **results}
        if error is not None or status == JobStatus.FAILED:
            unspecified = {"code": "INTERNAL_ERROR", "message": "The handler failed"}
            job_error = JobError.model_validate(error or unspecified)
            self.failure = errors.JobFailed(job_error.message, **(job_error.details or {}))
            self.failure.code = job_error.code
        return True


async def _legacy_parameters(ctx: JobContext[Any]) -> LegacyParameters:
    """Legacy handlers open `file_path` themselves, so it is the uploaded file, or a file that the
    client may name. A URL stays a URL, and takes precedence."""
    given = flatten_parameters(ctx.job.parameters)
    given.pop("file_path", None)
    try:
        kind, _ = parse_source(ctx.parameters)
    except errors.InvalidParameters:  # a job without a file
        return LegacyParameters(ctx.job.parameters)
    if kind != "url":
        source = await ctx.source()
        given = {"filename": source.name, **given, "file_path": str(source.path)}
    return LegacyParameters(given)


class Registry:
    """The handlers one process offers, by job type. The last one registered for a type is used, so
    that custom handlers can replace built-in ones."""

    def __init__(self, handlers: Iterable[Handler[Any]] = ()) -> None:
        self._handlers: dict[str, Handler[Any]] = {}
        self._origin: str | None = None
        for handler in handlers:
            self.add(handler)

    def add(self, handler: Handler[Any]) -> None:
        previous = self._handlers.get(handler.job_type)
        if previous is not None:
            logger.info(
                "The job type %r is handled by %s instead of %s",
                handler.job_type,
                self._origin or "another handler",
                previous.origin or "the built-in handler",
            )
        self._handlers[handler.job_type] = replace(handler, origin=self._origin)

    def register(
        self, job_type: str, handler: LegacyHandler, *, timeout: timedelta | None = None
    ) -> None:
        """Add a handler written as `async handler(job, repo, resource_calculator)`."""

        async def run(ctx: JobContext[AnyParameters]) -> Results:
            repo = LegacyRepo(ctx)
            job = ctx.job.model_copy(update={"parameters": await _legacy_parameters(ctx)})
            if asyncio.iscoroutinefunction(handler):
                await handler(job, repo, ctx.resources)
            else:  # not declared `async`, but returns an awaitable
                await (await asyncio.to_thread(handler, job, repo, ctx.resources))
            if repo.failure is not None:
                raise repo.failure
            return repo.results

        self.add(Handler(job_type, AnyParameters, run, timeout))

    def load(self, origin: str) -> None:
        """Load custom handlers. `module:function` is called with this registry; a `module` alone
        has a function `register`, or all handlers defined in it are added."""
        module_name, _, name = origin.partition(":")
        self._origin = origin
        try:
            module = import_module(module_name)
            handlers: dict[int, Handler[Any]] = {}  # by identity: one may have two names
            if not name and not hasattr(module, "register"):
                values = vars(module).values()
                handlers = {id(value): value for value in values if isinstance(value, Handler)}
            for handler in handlers.values():
                self.add(handler)
            if not handlers:
                getattr(module, name or "register")(self)
        except errors.InvalidSettings:
            raise
        except Exception as error:  # third-party code can fail in any way
            text = f"handlers: {origin!r} cannot be loaded: {type(error).__name__}: {error}"
            raise errors.InvalidSettings(text) from error
        finally:
            self._origin = None

    def limit_time(self, default: timedelta, by_type: Mapping[str, timedelta]) -> None:
        """Set the timeouts: `by_type` overrides those of the handlers, `default` is for handlers
        without one."""
        for job_type, handler in self._handlers.items():
            timeout = by_type.get(job_type) or handler.timeout or default
            self._handlers[job_type] = replace(handler, timeout=timeout)

    def __getitem__(self, job_type: str) -> Handler[Any]:
        try:
            return self._handlers[job_type]
        except KeyError:
            known = ", ".join(sorted(self._handlers))
            text = f"There is no handler for the job type {job_type!r}; there are: {known}"
            raise errors.UnknownJobType(text) from None

    def __contains__(self, job_type: str) -> bool:
        return job_type in self._handlers

    @property
    def job_types(self) -> frozenset[str]:
        return frozenset(self._handlers)

    @property
    def io_types(self) -> frozenset[str]:
        """Those whose jobs wait for the network and do not occupy a sandbox process meanwhile."""
        return frozenset(
            name
            for name, handler in self._handlers.items()
            if handler.io_bound and not (handler.isolated and handler.origin is not None)
        )
