"""`secretary template …`: which templates there are, and what is wrong with one."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.errors import InvalidParameters, InvalidTemplate
from .options import AsJson, Target, somewhere
from .output import ExitCode, print_json, say

app = typer.Typer(help="List templates, and check your own.", no_args_is_help=True)

Files = Annotated[list[Path], typer.Argument(metavar="FILE...")]


@app.command("list")
@somewhere
def list_templates(where: Target, as_json: AsJson = False) -> None:
    """List the templates that jobs can use: those of the program and your own."""
    templates = where.work(lambda place: place.templates())
    if as_json:
        print_json({"templates": templates})
    else:
        from .tables import print_templates

        print_templates(templates)


@app.command()
def check(files: Files, as_json: AsJson = False) -> None:
    """Say what is wrong with templates, by line; the exit code is 1 when one cannot be used."""
    found = [_checked(path) for path in files]
    if as_json:
        print_json({"templates": found})
    else:
        for one in found:
            _tell(one)
    if any(one["faults"] for one in found):
        raise typer.Exit(ExitCode.FAILED)


def _checked(path: Path) -> dict[str, Any]:
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


def _tell(one: dict[str, Any]) -> None:
    for kind, name in (("faults", "fault"), ("warnings", "warning")):
        for found in one[kind]:
            say(f"{one['file']}:{found['line']}: {name}: {found['message']}")
    if not one["faults"]:
        asked = ", ".join(f"{field['name']} ({field['type']})" for field in one["fields"])
        say(f"{one['file']}: good; it asks for {asked or 'nothing'}")
