"""`secretary template …`: list templates and validate your own."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import InvalidParameters, InvalidTemplate
from .backend import Document
from .options import AsJson, Target, with_target
from .output import ExitCode, echo, print_json
from .tables import print_templates

app = typer.Typer(help="List templates and validate your own.", no_args_is_help=True)

Files = Annotated[list[Path], typer.Argument(metavar="FILE...")]


@app.command("list")
@with_target
def list_templates(target: Target, as_json: AsJson = False) -> None:
    """List the available templates, built-in and your own."""
    templates = target.run(lambda backend: backend.templates())
    print_json({"templates": templates}) if as_json else print_templates(templates)


@app.command()
def check(files: Files, as_json: AsJson = False) -> None:
    """Validate templates and report errors by line; exit with 1 if one is invalid."""
    reports = [_check(path) for path in files]
    if as_json:
        print_json({"templates": reports})
    else:
        for report in reports:
            _print_report(report)
    if any(report["faults"] for report in reports):
        raise typer.Exit(ExitCode.FAILED)


def _check(path: Path) -> Document:
    from ..llm.templates import parse, read

    try:
        template = parse(read(path), path.stem)
    except OSError as error:
        raise InvalidParameters(f"{path} cannot be read: {error.strerror}") from None
    except InvalidTemplate as error:
        return {"file": str(path), "faults": error.details["faults"], "warnings": [], "fields": []}
    warnings = [asdict(warning) for warning in template.warnings]
    fields = [field.document() for field in template.fields]
    return {"file": str(path), "faults": [], "warnings": warnings, "fields": fields}


def _print_report(report: Document) -> None:
    for key, label in (("faults", "fault"), ("warnings", "warning")):
        for problem in report[key]:
            echo(f"{report['file']}:{problem['line']}: {label}: {problem['message']}")
    if not report["faults"]:
        fields = ", ".join(f"{field['name']} ({field['type']})" for field in report["fields"])
        echo(f"{report['file']}: good; it asks for {fields or 'nothing'}")
