"""`secretary doctor`, `workers`, `template` and `completion`: inspect the installation."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from ..core.errors import InvalidParameters, InvalidTemplate
from .backend import Document
from .options import AsJson, Target, with_target
from .output import ExitCode, echo, print_findings, print_json, print_templates, print_workers

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


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument()]) -> None:
    """Print the completion script for a shell."""
    from typer._completion_shared import get_completion_script

    script = get_completion_script(
        prog_name="secretary",
        complete_var="_SECRETARY_COMPLETE",
        shell=shell,  # nosec B604  # the name of a shell; nothing is executed
    )
    echo(script.strip())


templates_app = typer.Typer(help="List templates and validate your own.", no_args_is_help=True)


@templates_app.command("list")
@with_target
def list_templates(target: Target, as_json: AsJson = False) -> None:
    """List the available templates, built-in and your own."""
    templates = target.run(lambda backend: backend.templates())
    print_json({"templates": templates}) if as_json else print_templates(templates)


@templates_app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...")], as_json: AsJson = False
) -> None:
    """Validate templates and report errors by line; exit with 1 if one is invalid."""
    reports = [_check(path) for path in files]
    if as_json:
        print_json({"templates": reports})
    for report in [] if as_json else reports:
        for key, label in (("faults", "fault"), ("warnings", "warning")):
            for problem in report[key]:
                echo(f"{report['file']}:{problem['line']}: {label}: {problem['message']}")
        if not report["faults"]:
            fields = ", ".join(f"{field['name']} ({field['type']})" for field in report["fields"])
            echo(f"{report['file']}: good; it asks for {fields or 'nothing'}")
    if any(report["faults"] for report in reports):
        raise typer.Exit(ExitCode.FAILED)


def _check(path: Path) -> Document:
    from ..llm.templates import parse, read

    report: Document = {"file": str(path), "faults": [], "warnings": [], "fields": []}
    try:
        template = parse(read(path), path.stem)
    except OSError as error:
        raise InvalidParameters(f"{path} cannot be read: {error.strerror}") from None
    except InvalidTemplate as error:
        return report | {"faults": error.details["faults"]}
    warnings = [asdict(warning) for warning in template.warnings]
    return report | {"warnings": warnings, "fields": [one.document() for one in template.fields]}
