"""`secretary doctor`, `secretary workers list` and `secretary completion`."""

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from .options import AsJson, Target, with_target
from .output import ExitCode, echo, print_json
from .tables import print_findings, print_workers

workers_app = typer.Typer(help="Inspect the workers of all machines.", no_args_is_help=True)


@with_target
def doctor(target: Target, as_json: AsJson = False) -> None:
    """Check the installation; exit with 1 if there is a problem."""
    findings = target.run(lambda backend: backend.findings())
    from ..observability.doctor import Verdict, worst

    verdict = worst(findings)
    if as_json:
        print_json({"verdict": verdict, "findings": [asdict(finding) for finding in findings]})
    else:
        print_findings(findings)
    if verdict is Verdict.PROBLEM:
        raise typer.Exit(ExitCode.FAILED)


@workers_app.command("list")
@with_target
def list_workers(target: Target, as_json: AsJson = False) -> None:
    """List workers with their state, slots, version, last heartbeat and job types."""
    workers = target.run(lambda backend: backend.workers())
    print_json({"workers": workers}) if as_json else print_workers(workers)


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument()]) -> None:
    """Print the completion script for a shell."""
    from typer._completion_shared import get_completion_script

    script = get_completion_script(
        prog_name="secretary",
        complete_var="_SECRETARY_COMPLETE",
        shell=shell.value,  # nosec B604  # the name of a shell; nothing is executed
    )
    echo(script.strip())
