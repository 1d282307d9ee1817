"""Checks every package of an installation for known vulnerabilities.

Fails if there are any, or if the vulnerability database cannot be reached. With --report, an
unreachable database is only a warning, unless CI is set: nobody reads warnings in CI."""

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

#: A reachable database answers within seconds.
TIMEOUT = 300


@dataclass(frozen=True, slots=True)
class AuditResult:
    """`packages` is the number of packages checked; None if some were not, for this `reason`."""

    packages: int | None = None
    vulnerabilities: tuple[str, ...] = ()
    reason: str = ""


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "requirements.txt"
        file.write_text("\n".join(installed()))
        result = run_audit([*PROGRAM, "--requirement", str(file)])
    may_be_offline = "--report" in sys.argv and not os.environ.get("CI")
    sys.exit(exit_code(result, may_be_offline=may_be_offline))


#: All versions are pinned, so nothing is resolved or installed.
PROGRAM = [
    sys.executable, "-m", "pip_audit", "--format=json", "--no-deps", "--disable-pip",
    "--progress-spinner=off", "--timeout=15",
]  # fmt: skip


def installed() -> list[str]:
    """The packages of the default installation and all extras, in their installed versions."""
    names = {name for group in licences_by_group().values() for name in group}
    return [f"{name}=={version(name)}" for name in sorted(names)]


def run_audit(command: Sequence[str]) -> AuditResult:
    """pip-audit exits with 1 for vulnerabilities and for errors; its output tells them apart."""
    try:
        done = subprocess.run(  # nosec B603  # no shell and no outside input
            command, capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return AuditResult(reason=f"no response within {TIMEOUT} s")
    try:
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        lines = done.stderr.strip().splitlines() or [f"pip-audit exited with {done.returncode}"]
        return AuditResult(reason=lines[-1])
    vulnerabilities = tuple(
        _describe(one, vuln) for one in packages for vuln in one.get("vulns", ())
    )
    # pip-audit itself succeeds if packages are unknown to the database, even if all of them are.
    skipped = [package for package in packages if "skip_reason" in package]
    if skipped:
        first = f"{skipped[0]['name']}: {skipped[0]['skip_reason']}"
        reason = f"{len(skipped)} of {len(packages)} packages were skipped, such as {first}"
        return AuditResult(None, vulnerabilities, reason)
    return AuditResult(len(packages), vulnerabilities)


def _describe(package: dict[str, Any], vulnerability: dict[str, Any]) -> str:
    fixed = ", ".join(vulnerability["fix_versions"]) or "no version yet"
    return f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in {fixed}"


def exit_code(result: AuditResult, *, may_be_offline: bool) -> int:
    """0 if all is well, 1 for vulnerabilities, 2 for an incomplete audit."""
    for vulnerability in result.vulnerabilities:
        print(vulnerability, file=sys.stderr)
    if result.packages is None:
        print(f"PACKAGE AUDIT INCOMPLETE: {result.reason}", file=sys.stderr)
        print("There may be known vulnerabilities; run `make audit` again.", file=sys.stderr)
        return 1 if result.vulnerabilities else 0 if may_be_offline else 2
    if not result.vulnerabilities:
        print(f"No known vulnerabilities in {result.packages} packages.")
    return 1 if result.vulnerabilities else 0


if __name__ == "__main__":
    main()
