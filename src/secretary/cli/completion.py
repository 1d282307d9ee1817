"""`secretary completion`: what a shell needs to complete commands, options and job types."""

import asyncio
from enum import StrEnum
from typing import Annotated

import typer

from ..core.errors import SecretaryError
from .options import Target
from .output import say

#: Nobody waits longer for a suggestion.
PATIENCE = 5.0


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def add_to(app: typer.Typer) -> None:
    app.command()(completion)


def completion(shell: Annotated[Shell, typer.Argument()]) -> None:
    """Print what makes a shell complete commands, options and job types."""
    from typer._completion_shared import get_completion_script

    script = get_completion_script(
        prog_name="secretary",
        complete_var="_SECRETARY_COMPLETE",
        shell=shell.value,  # nosec B604  # the name of one; nothing is run
    )
    say(script.strip())


def complete_job_type(incomplete: str) -> list[str]:
    """The types of the service in SECRETARY_URL, else those known here."""
    try:
        known = asyncio.run(_job_types())
    except (SecretaryError, TimeoutError):
        return []
    return [name for name in known if name.startswith(incomplete)]


async def _job_types() -> list[str]:
    async with asyncio.timeout(PATIENCE), Target().opened() as place:
        return await place.job_types()
