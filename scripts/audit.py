"""Asks for each package that an installation needs whether a hole in its version is known.

It fails where one is, and where it could not ask: that is no clean bill. With --report it fails
only for holes, and says loudly that it could not ask; with CI in the environment it fails then,
too, because nobody reads what a machine says."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from write_licences import licences_by_group

#: Asking a service that is there takes seconds.
SECONDS = 300


@dataclass(frozen=True, slots=True)
class Verdict:
    """`packages` were asked for; None: not for all of them, and `why` tells the reason."""

    packages: int | None = None
    holes: tuple[str, ...] = ()
    why: str = ""


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "requirements.txt"
        file.write_text("\n".join(installed()))
        verdict = asked([*PROGRAM, "--requirement", str(file)])
    sys.exit(exit_code(verdict, may_be_missing="--report" in sys.argv and not os.environ.get("CI")))


#: The versions are known: nothing is resolved and nothing installed.
PROGRAM = [
    sys.executable, "-m", "pip_audit", "--format=json", "--no-deps", "--disable-pip",
    "--progress-spinner=off", "--timeout=15",
]  # fmt: skip


def installed() -> list[str]:
    """What the default installation and all extras need, in the versions that are here."""
    names = {name for group in licences_by_group().values() for name in group}
    return [f"{name}=={version(name)}" for name in sorted(names)]


def asked(command: Sequence[str]) -> Verdict:
    """pip-audit ends with 1 for holes and for faults alike; only with an answer it was asked."""
    try:
        done = subprocess.run(  # nosec B603  # no shell, and all of it is ours
            command, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return Verdict(why=f"There was no answer within {SECONDS} s")
    try:
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        lines = done.stderr.strip().splitlines() or [f"pip-audit ended with {done.returncode}"]
        return Verdict(why=lines[-1])
    # By itself it calls that a clean bill, also when it knows none of them.
    skipped = [package for package in packages if "skip_reason" in package]
    holes = tuple(_describe(one, hole) for one in packages for hole in one.get("vulns", ()))
    if skipped:
        why = f"of {len(packages)} packages {len(skipped)} are unknown there, as "
        return Verdict(None, holes, f"{why}{skipped[0]['name']}: {skipped[0]['skip_reason']}")
    return Verdict(len(packages), holes)


def _describe(package: dict[str, Any], hole: dict[str, Any]) -> str:
    mended = ", ".join(hole["fix_versions"]) or "no version yet"
    return f"{package['name']} {package['version']}: {hole['id']}, mended in {mended}"


def exit_code(verdict: Verdict, *, may_be_missing: bool) -> int:
    """The exit code: 0, 1 for holes, 2 for an audit that was not done."""
    for hole in verdict.holes:
        print(hole, file=sys.stderr)
    if verdict.packages is None:
        print(f"THE AUDIT OF PACKAGES WAS NOT DONE: {verdict.why}", file=sys.stderr)
        print("Whether one of them has a known hole is open; run `make audit`.", file=sys.stderr)
        return 1 if verdict.holes else 0 if may_be_missing else 2
    if not verdict.holes:
        print(f"No hole is known in the {verdict.packages} packages of an installation.")
    return 1 if verdict.holes else 0


if __name__ == "__main__":
    main()
