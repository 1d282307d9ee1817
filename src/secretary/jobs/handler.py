"""How a job type meets the code that does it: what a handler is, and what it may touch."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from ..config import DocumentOptions, MediaOptions
from ..core.errors import InvalidParameters, ProcessingTimeout
from ..core.job import Job, LogEntry, LogLevel, Progress, ResourceCalculator
from ..core.parameters import flatten_parameters, normalize_parameters
from ..llm import Llm
from ..llm.templates import Library
from ..storage.artifact_sync import ArtifactSync
from ..storage.cache import Cache, CacheEntry
from ..storage.sources import SourceFile, Sources

P = TypeVar("P", bound=BaseModel)
T = TypeVar("T")
Results = BaseModel | Mapping[str, Any] | None

DEFAULT_MAX_ATTEMPTS = 3
DEFAULT_DOCUMENTS = DocumentOptions()
DEFAULT_MEDIA = MediaOptions()
#: Behind the name of an attempt's directory.
SCRATCH_SUFFIX = ".scratch"


class AnyParameters(BaseModel):
    """Parameters nobody declared: whatever came in is kept, unchecked."""

    model_config = ConfigDict(extra="allow")


class Reporter(Protocol):
    """Takes what a running job has to say. Never waits; what comes too fast is put together."""

    def progress(self, progress: Progress) -> None: ...
    def log(self, entry: LogEntry) -> None: ...


class Runner(Protocol):
    """Runs heavy work where it can neither block nor take down the worker."""

    async def __call__(
        self,
        function: Callable[..., T | Awaitable[T]],
        *args: Any,
        wall_time: timedelta | None = None,
    ) -> T: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(Generic[P]):
    """All a handler may touch while it runs one job. The store is not among it."""

    job: Job
    parameters: P
    resources: ResourceCalculator
    reporter: Reporter
    #: `await ctx.run(function, *args)` for anything that computes or that may crash.
    run: Runner
    attempt_directory: str
    sources: Sources
    cache: Cache
    documents: DocumentOptions = DEFAULT_DOCUMENTS
    media: MediaOptions = DEFAULT_MEDIA
    #: So many calls of `run` are worked on at the same time.
    processes: int = 1
    #: Language models, as far as the settings name any.
    llm: Llm = field(default_factory=Llm)
    templates: Library = field(default_factory=Library)
    #: Where several machines share their files.
    artifact_sync: ArtifactSync | None = None

    @property
    def directory(self) -> Path:
        """The files of this attempt. They are kept when the job completes, else removed."""
        directory = Path(self.attempt_directory)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    @property
    def scratch(self) -> Path:
        """For files that nobody needs once this attempt has ended."""
        directory = Path(self.attempt_directory + SCRATCH_SUFFIX)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    async def progress(self, step: str, percent: int, message: str = "") -> None:
        self.reporter.progress(Progress(step=step, percent=percent, message=message))

    async def source(self) -> SourceFile:
        """The file that the job is to work on: uploaded, downloaded or local. Only to be read."""
        named: Any = self.parameters
        return await self.sources.fetch(named, job_id=self.job.job_id, into=self.scratch)

    async def entry(
        self, kind: str, sha256: str, method: str, *, options: Mapping[str, Any], version: str
    ) -> CacheEntry:
        """The place of this work in the cache, with what was done of it on other machines."""
        entry = await asyncio.to_thread(
            self.cache.entry, kind, sha256, method, options=options, version=version
        )
        return await self.artifact_sync.shared(entry) if self.artifact_sync else entry

    async def log(self, message: str, level: LogLevel = "info") -> None:
        self.reporter.log(LogEntry(level=level, message=message))


@dataclass(frozen=True, slots=True)
class Handler(Generic[P]):
    """An async function, the job type it serves and the shape of its parameters."""

    job_type: str
    parameters: type[P]
    run: Callable[[JobContext[P]], Awaitable[Results]]
    timeout: timedelta | None = None
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    #: In a process of its own, where it may block, crash or eat memory. Not isolated, it runs on
    #: the worker's loop: for async code that only waits for others, and that is trusted.
    isolated: bool = True
    #: `module:function` that registered it: where the other process finds it again. Without it
    #: (our own handlers, which send heavy work to the sandbox themselves) nothing is isolated.
    origin: str | None = None

    def parse(self, parameters: Mapping[str, Any]) -> P:
        """The API calls this on submission, the executor before a run: one set of rules."""
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
    said = (f"{'.'.join(str(p) for p in problem['loc'])}: {problem['msg']}" for problem in problems)
    return "The parameters do not fit: " + "; ".join(said)


def handles(
    job_type: str,
    parameters: type[P] = AnyParameters,  # type: ignore[assignment]  # the default for P
    *,
    timeout: timedelta | None = None,
    max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    isolated: bool = True,
) -> Callable[[Callable[[JobContext[P]], Awaitable[Results]]], Handler[P]]:
    """Make a handler of an async function. Registers nothing: see `Registry`."""

    def wrap(run: Callable[[JobContext[P]], Awaitable[Results]]) -> Handler[P]:
        return Handler(job_type, parameters, run, timeout, max_attempts, isolated)

    return wrap


async def run_in_thread(
    function: Callable[..., T | Awaitable[T]], *args: Any, wall_time: timedelta | None = None
) -> T:
    """The runner of a process that runs one job only: its loop stays free, no more is needed."""
    seconds = wall_time.total_seconds() if wall_time else None
    try:
        async with asyncio.timeout(seconds):
            result = await asyncio.to_thread(function, *args)
            return await result if isinstance(result, Awaitable) else result
    except TimeoutError:
        if seconds is None:
            raise
        text = f"The work took longer than the {seconds:g} seconds it may take."
        raise ProcessingTimeout(text, limit_seconds=seconds) from None


def results_as_json(results: Results) -> dict[str, Any] | None:
    if isinstance(results, BaseModel):
        return results.model_dump(mode="json")
    return dict(results) if results is not None else None
