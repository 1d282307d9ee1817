"""The handler API: what a handler is, and the context it runs in."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from ..config import DocumentSettings, MediaSettings
from ..core.errors import InvalidParameters, ProcessingTimeout
from ..core.job import Job, LogEntry, LogLevel, Progress, ResourceCalculator
from ..core.parameters import flatten_parameters, normalize_parameters
from ..llm import Llm
from ..llm.templates import Library
from ..storage.artifact_sync import ArtifactSync
from ..storage.cache import Cache, CacheEntry
from ..storage.sources import SourceFile, Sources

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
        return await self.sources.fetch(parameters, job_id=self.job.job_id, into=self.scratch)

    async def entry(
        self, kind: str, sha256: str, method: str, *, options: Mapping[str, Any], version: str
    ) -> CacheEntry:
        """The cache entry for this work, including what other machines have stored in it."""
        entry = await asyncio.to_thread(
            self.cache.entry, kind, sha256, method, options=options, version=version
        )
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
    #: The `module:function` that registered it, so that a sandbox process can load it. None for
    #: built-in handlers, which send their heavy work to the sandbox themselves.
    origin: str | None = None

    def parse(self, parameters: Mapping[str, Any]) -> P:
        """Validate parameters, both on submission and before a run."""
        try:
            return self.parameters.model_validate(flatten_parameters(parameters))
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            raise InvalidParameters(_sentence(problems), problems=problems) from None

    def normalize(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters as they are stored."""
        if self.parameters is AnyParameters:
            return normalize_parameters(parameters, None)
        fields = self.parameters.model_fields
        known = {name for field, info in fields.items() for name in (field, *_aliases(info))}
        return normalize_parameters(parameters, frozenset(known))


def _aliases(field: FieldInfo) -> Iterable[str]:
    match field.validation_alias:
        case str(name):
            return [name]
        case AliasChoices(choices=choices):
            return [name for name in choices if isinstance(name, str)]
        case _:
            return []


def _sentence(problems: Iterable[Mapping[str, Any]]) -> str:
    texts = (f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)
    return "Invalid parameters: " + "; ".join(texts)


def handles(
    job_type: str,
    parameters: type[P] = AnyParameters,  # type: ignore[assignment]  # the default for P
    *,
    timeout: timedelta | None = None,
    max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    isolated: bool = True,
) -> Callable[[Callable[[JobContext[P]], Awaitable[Results]]], Handler[P]]:
    """Turn an async function into a `Handler`; see `Registry` for how it is registered."""

    def wrap(run: Callable[[JobContext[P]], Awaitable[Results]]) -> Handler[P]:
        return Handler(job_type, parameters, run, timeout, max_attempts, isolated)

    return wrap


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
        raise ProcessingTimeout(text, limit_seconds=seconds) from None


def results_as_json(results: Results) -> dict[str, Any] | None:
    if isinstance(results, BaseModel):
        return results.model_dump(mode="json")
    return dict(results) if results is not None else None
