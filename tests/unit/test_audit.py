"""The security scans of `make check`: pip-audit and bandit."""

import importlib.util
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
VULNERABILITY = {"id": "PYSEC-1", "fix_versions": ["2.0"], "aliases": [], "description": "Bad"}


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("audit", ROOT / "scripts" / "audit.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "audit", module)
    spec.loader.exec_module(module)
    return module


def fake_pip_audit(output: Any, error: str = "", code: int = 0) -> list[str]:
    """A command that prints this output, in place of pip-audit."""
    text = output if isinstance(output, str) else json.dumps(output)
    program = "import sys; out, err, code = sys.argv[1:]; print(out); print(err, file=sys.stderr)"
    return [
        sys.executable,
        "-S",
        "-c",
        f"{program}; sys.exit(int(code))",
        text,
        error,
        str(code),
    ]


def package(*vulnerabilities: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "a", "version": "1.0", "vulns": list(vulnerabilities), **more}


def test_the_audit_passes_without_vulnerabilities(
    audit: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    result = audit.run_audit(fake_pip_audit({"dependencies": [package()]}))
    assert audit.exit_code(result, may_be_offline=False) == 0
    assert "No known vulnerabilities in 1 packages" in capsys.readouterr().out


@pytest.mark.parametrize("may_be_offline", [True, False])
def test_a_vulnerability_is_reported_and_fails_the_audit(
    audit: ModuleType, capsys: pytest.CaptureFixture[str], may_be_offline: bool
) -> None:
    result = audit.run_audit(fake_pip_audit({"dependencies": [package(VULNERABILITY)]}, code=1))
    assert audit.exit_code(result, may_be_offline=may_be_offline) == 1
    assert capsys.readouterr().err == "a 1.0: PYSEC-1, fixed in 2.0\n"


@pytest.mark.parametrize(
    "command",
    [
        fake_pip_audit("", "Traceback …\nERROR: no connection", 1),
        fake_pip_audit("", "ERROR: no connection", 0),
        fake_pip_audit("{}", "ERROR: no connection", 0),
        fake_pip_audit({"dependencies": [{"name": "a", "skip_reason": "no connection"}]}),
    ],
)
def test_an_unreachable_database_does_not_pass_the_audit(
    audit: ModuleType, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    result = audit.run_audit(command)
    assert audit.exit_code(result, may_be_offline=False) == 2
    assert audit.exit_code(result, may_be_offline=True) == 0
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("PACKAGE AUDIT INCOMPLETE") == 2
    assert output.err.count("no connection") == 2


def test_a_vulnerability_is_reported_even_if_other_packages_are_unknown(audit: ModuleType) -> None:
    unknown = {"name": "b", "skip_reason": "not found"}
    result = audit.run_audit(
        fake_pip_audit({"dependencies": [package(VULNERABILITY), unknown]}, code=1)
    )
    assert (len(result.vulnerabilities), result.packages) == (1, None)
    assert audit.exit_code(result, may_be_offline=True) == 1


def test_all_packages_of_an_installation_are_audited(audit: ModuleType) -> None:
    names = {line.partition("==")[0] for line in audit.installed()}
    assert {"fastapi", "starlette", "pillow", "lxml", "yt-dlp", "obstore", "mcp"} <= names
    assert "pytest" not in names


def exceptions() -> Iterator[str]:
    for file in [*ROOT.glob("src/**/*.py"), *ROOT.glob("scripts/*.py")]:
        yield from re.findall(r"#\s*nosec\b.*", file.read_text())


def test_every_bandit_exception_has_a_reason() -> None:
    entries = list(exceptions())
    assert [one for one in entries if not re.fullmatch(r"# nosec B\d+  # .{8,}", one)] == []
    text = (ROOT / "pyproject.toml").read_text()
    skipped = tomllib.loads(text)["tool"]["bandit"]["skips"]
    reasons = [rf'^  "{code}",  # .{{10,}}' for code in skipped]
    assert [one for one in reasons if not re.search(one, text, re.M)] == []
