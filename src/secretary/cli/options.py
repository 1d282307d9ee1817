"""The options that nearly all commands share, and what they lead to: the place where jobs are."""

import asyncio
import inspect
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar

import typer

from ..core.errors import InvalidParameters
from .backend import Backend

if TYPE_CHECKING:
    from ..config import Settings

P = ParamSpec("P")
T = TypeVar("T")

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="The config file [default: config/config.yaml]")
]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Where everything is kept")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON documents")]
Url = Annotated[
    str | None,
    typer.Option("--url", help="A service to ask instead of the store here [env: SECRETARY_URL]"),
]
ApiKey = Annotated[
    str | None,
    typer.Option("--api-key", help="Its key, or @FILE with it [env: SECRETARY_API_KEY]"),
]

#: What `somewhere` adds to a command.
SHARED: dict[str, Any] = {
    "data_dir": DataDir,
    "config": ConfigFile,
    "url": Url,
    "api_key": ApiKey,
}


@dataclass(frozen=True, slots=True)
class Target:
    """What the command line says of the place. With neither `url` nor a directory or settings,
    the environment says whether there is a service to ask."""

    data_dir: Path | None = None
    config: Path | None = None
    url: str | None = None
    api_key: str | None = None

    @property
    def service(self) -> str | None:
        """Where the service is; None when the store here is meant."""
        if self.url is not None:
            if self.data_dir is not None or self.config is not None:
                text = "--url asks a service elsewhere: it goes without --data-dir and --config"
                raise InvalidParameters(text)
            return self.url
        if self.data_dir is not None or self.config is not None:
            return None
        return os.environ.get("SECRETARY_URL") or None

    @property
    def key(self) -> str | None:
        given = self.api_key or os.environ.get("SECRETARY_API_KEY") or None
        if given is None or not given.startswith("@"):
            return given
        file = Path(given[1:]).expanduser()
        try:
            return file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise InvalidParameters(f"--api-key @{file}: {reason}") from None

    def settings(self, **more: dict[str, Any]) -> "Settings":
        return read_settings(self.config, self.data_dir, **more)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Backend]:
        # Loaded here: each command needs one of them, and `--help` none.
        if (url := self.service) is not None:
            from .remote import RemoteBackend as There

            async with There(url, self.key) as there:
                yield there
            return
        from .local import LocalBackend as Here

        settings = self.settings()
        log_quietly(settings)
        async with Here(settings) as here:
            yield here

    def work(self, work: Callable[[Backend], Awaitable[T]]) -> T:
        """Do this there."""

        async def run() -> T:
            async with self.opened() as place:
                return await work(place)

        return asyncio.run(run())

    def again(self) -> str:
        """The options with which another command finds the same place."""
        given = {"--url": self.url, "--data-dir": self.data_dir, "--config": self.config}
        return "".join(f" {name} {value}" for name, value in given.items() if value is not None)


def somewhere(command: Callable[Concatenate[Target, P], T]) -> Callable[..., T]:
    """Gives a command the options that say where, instead of its first parameter."""
    signature = inspect.signature(command, eval_str=True)
    _, *own = signature.parameters.values()
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in SHARED.items()
    ]

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> T:
        where = Target(**{name: kwargs.pop(name, None) for name in SHARED})
        return command(where, *args, **kwargs)

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + shared
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def read_settings(config: Path | None, data_dir: Path | None, **more: dict[str, Any]) -> "Settings":
    """The settings with what the command line says on top."""
    from ..config import load

    overrides = dict(more)
    if data_dir is not None:
        overrides["storage"] = {"data_dir": data_dir}
    return load(config, overrides=overrides)


def set_up_logging(settings: "Settings") -> None:
    from ..observability import logging as logs

    logs.configure_logging(settings.logging.level, as_json=settings.logging.format == "json")


def log_quietly(settings: "Settings") -> None:
    """The answer of a command is what it prints; of the log only trouble belongs beside it."""
    set_up_logging(settings)
    if settings.logging.level != "debug":
        logging.getLogger().setLevel(logging.WARNING)
