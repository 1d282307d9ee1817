"""`secretary doctor`: is this installation well?"""

import asyncio
from dataclasses import asdict

import typer

from ..app import examine
from ..doctor import Verdict, worst
from .options import AsJson, ConfigFile, DataDir, read_settings
from .output import print_findings, print_json


def add_to(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(as_json: AsJson = False, data_dir: DataDir = None, config: ConfigFile = None) -> None:
    """Check the installation; the exit code is 1 when there is a problem."""
    findings = asyncio.run(examine(read_settings(config, data_dir)))
    verdict = worst(findings)
    if as_json:
        print_json({"verdict": verdict, "findings": [asdict(finding) for finding in findings]})
    else:
        print_findings(findings)
    if verdict is Verdict.PROBLEM:
        raise typer.Exit(1)
