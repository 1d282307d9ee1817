"""The options that all commands share, and what they lead to: the settings and the desk."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from .. import logs
from ..app import make_desk, opened_store
from ..config import Settings, load
from ..desk import Desk
from ..errors import InvalidSettings

T = TypeVar("T")

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="The config file [default: config/config.yaml]")
]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Where everything is kept")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON documents")]


def read_settings(config: Path | None, data_dir: Path | None, **more: dict[str, Any]) -> Settings:
    """The settings with what the command line says on top."""
    overrides = dict(more)
    if data_dir is not None:
        overrides["storage"] = {"data_dir": data_dir}
    return load(config, overrides=overrides)


def at_desk(
    config: Path | None,
    data_dir: Path | None,
    work: Callable[[Desk], Awaitable[T]],
    *,
    make_store: bool = False,
) -> T:
    """Do `work` with the store open. Only a command that adds something makes a new store:
    a mistyped directory should be noticed, not filled."""
    settings = read_settings(config, data_dir)
    log_quietly(settings)
    if not make_store:
        _require_store(settings)

    async def run() -> T:
        async with opened_store(settings) as store:
            return await work(make_desk(settings, store))

    return asyncio.run(run())


def log_quietly(settings: Settings) -> None:
    """The answer of a command is what it prints; of the log only trouble belongs beside it."""
    logs.set_up(settings.logging.level, as_json=settings.logging.format == "json")
    if settings.logging.level != "debug":
        logging.getLogger().setLevel(logging.WARNING)


def _require_store(settings: Settings) -> None:
    directory = settings.storage.data_dir
    file = settings.database_file
    if file is not None and not file.exists():
        raise InvalidSettings(
            f"storage.data_dir: there are no jobs in {directory.resolve()} yet."
            " Start the service there, or name another directory with --data-dir."
        )
