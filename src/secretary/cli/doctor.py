"""`secretary doctor`: is this installation well, or the service elsewhere?"""

import typer

from .options import AsJson, Target, somewhere
from .output import ExitCode, print_json


def add_to(app: typer.Typer) -> None:
    app.command()(doctor)


@somewhere
def doctor(where: Target, as_json: AsJson = False) -> None:
    """Check the installation; the exit code is 1 when there is a problem."""
    findings = where.work(lambda place: place.findings())
    # Loaded here, as all that only some commands need.
    from dataclasses import asdict

    from ..observability.doctor import Verdict, worst

    verdict = worst(findings)
    if as_json:
        print_json({"verdict": verdict, "findings": [asdict(finding) for finding in findings]})
    else:
        from .tables import print_findings

        print_findings(findings)
    if verdict is Verdict.PROBLEM:
        raise typer.Exit(ExitCode.FAILED)
