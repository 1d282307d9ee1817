"""The options that most commands share, and the backend they select."""

import asyncio
import inspect
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar

import typer

from ..core.errors import InvalidParameters, SecretaryError
from .backend import Backend

if TYPE_CHECKING:
    from ..config import Settings

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds that shell completion may take.
COMPLETION_TIMEOUT = 5.0


def complete_job_type(incomplete: str) -> list[str]:
    """Complete the job types of the service in SECRETARY_URL, or else those of this machine."""

    async def job_types() -> list[str]:
        async with asyncio.timeout(COMPLETION_TIMEOUT), Target().open() as backend:
            return await backend.job_types()

    try:
        return [name for name in asyncio.run(job_types()) if name.startswith(incomplete)]
    except (SecretaryError, TimeoutError):
        return []


ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Config file [default: config/config.yaml]")
]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Data directory")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON")]
Url = Annotated[
    str | None,
    typer.Option("--url", help="Use a service instead of the local store [env: SECRETARY_URL]"),
]
ApiKey = Annotated[
    str | None,
    typer.Option("--api-key", help="API key of the service, or @FILE [env: SECRETARY_API_KEY]"),
]
JobTypeFilter = Annotated[
    str | None,
    typer.Option("--type", help="Only jobs of this type", autocompletion=complete_job_type),
]
BatchFilter = Annotated[str | None, typer.Option("--batch", help="Only jobs of this batch")]
UserFilter = Annotated[str | None, typer.Option("--user", help="Only those of this user")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of entries")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="Continue after the previous page")]
IncludeArchived = Annotated[bool, typer.Option("--all", help="Include archived ones")]

#: The options that `with_target` adds to a command.
TARGET_OPTIONS: dict[str, Any] = {
    "data_dir": DataDir,
    "config": ConfigFile,
    "url": Url,
    "api_key": ApiKey,
}


@dataclass(frozen=True, slots=True)
class Target:
    """Where a command finds the jobs. `url` selects a service, `data_dir` or `config` the local
    store; without any of them, SECRETARY_URL decides."""

    data_dir: Path | None = None
    config: Path | None = None
    url: str | None = None
    api_key: str | None = None

    @property
    def service_url(self) -> str | None:
        """The URL of the service, or None for the local store."""
        is_local = self.data_dir is not None or self.config is not None
        if self.url is None:
            return None if is_local else os.environ.get("SECRETARY_URL") or None
        if is_local:
            text = "--url selects a remote service: it goes without --data-dir and --config"
            raise InvalidParameters(text)
        return self.url

    @property
    def key(self) -> str | None:
        key = self.api_key or os.environ.get("SECRETARY_API_KEY") or None
        if key is None or not key.startswith("@"):
            return key
        file = Path(key[1:]).expanduser()
        try:
            return file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a text file"
            raise InvalidParameters(f"--api-key @{file}: {reason}") from None

    @property
    def as_options(self) -> str:
        """The options that select this target in another command; the key is left out."""
        options = {"--url": self.url, "--data-dir": self.data_dir, "--config": self.config}
        return "".join(f" {name} {value}" for name, value in options.items() if value is not None)

    def settings(self, **overrides: dict[str, Any]) -> "Settings":
        """Load the settings, where the command line takes precedence, and set up the log."""
        from ..config import load
        from ..observability import logging as logs

        if self.data_dir is not None:
            overrides["storage"] = {"data_dir": self.data_dir}
        settings = load(self.config, overrides=overrides)
        logs.configure_logging(settings.logging.level, as_json=settings.logging.format == "json")
        return settings

    def quiet_settings(self, **overrides: dict[str, Any]) -> "Settings":
        """Load the settings, and keep the log out of the command's output, except for warnings and
        at level `debug`."""
        settings = self.settings(**overrides)
        if settings.logging.level != "debug":
            logging.getLogger().setLevel(logging.WARNING)
        return settings

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Backend]:
        # Imported here: each backend is slow to import, and `--help` needs neither.
        if (url := self.service_url) is not None:
            from .remote import RemoteBackend

            async with aclosing(RemoteBackend(url, self.key)) as remote:
                await remote.ping()
                yield remote
            return
        from ..app import Application
        from .local import LocalBackend

        async with aclosing(LocalBackend(Application(self.quiet_settings()))) as local:
            yield local

    def run(self, work: Callable[[Backend], Awaitable[T]]) -> T:
        """Run `work` with the target's backend."""

        async def run() -> T:
            async with self.open() as backend:
                return await work(backend)

        return asyncio.run(run())


def with_target(command: Callable[Concatenate[Target, P], T]) -> Callable[..., T]:
    """Replace a command's first parameter by the options that make up a `Target`."""
    signature = inspect.signature(command, eval_str=True)
    _, *own = signature.parameters.values()
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in TARGET_OPTIONS.items()
    ]

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> T:
        target = Target(**{name: kwargs.pop(name, None) for name in TARGET_OPTIONS})
        return command(target, *args, **kwargs)

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + shared
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run
