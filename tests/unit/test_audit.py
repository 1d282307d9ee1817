"""What `make check` does beside the tests, to find holes."""

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
HOLE = {"id": "PYSEC-1", "fix_versions": ["2.0"], "aliases": [], "description": "Bad"}


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("audit", ROOT / "scripts" / "audit.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "audit", module)
    spec.loader.exec_module(module)
    return module


def saying(answer: Any, complaint: str = "", code: int = 0) -> list[str]:
    """A program that answers so, in the place of pip-audit."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    program = "import sys; out, err, code = sys.argv[1:]; print(out); print(err, file=sys.stderr)"
    return [
        sys.executable,
        "-S",
        "-c",
        f"{program}; sys.exit(int(code))",
        text,
        complaint,
        str(code),
    ]


def package(*holes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "a", "version": "1.0", "vulns": list(holes), **more}


def test_without_a_hole_all_is_well(audit: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    verdict = audit.asked(saying({"dependencies": [package()]}))
    assert audit.exit_code(verdict, may_be_missing=False) == 0
    assert "No hole is known in the 1 packages" in capsys.readouterr().out


@pytest.mark.parametrize("may_be_missing", [True, False])
def test_a_vulnerability_is_reported_and_fails_the_audit(
    audit: ModuleType, capsys: pytest.CaptureFixture[str], may_be_missing: bool
) -> None:
    verdict = audit.asked(saying({"dependencies": [package(HOLE)]}, code=1))
    assert audit.exit_code(verdict, may_be_missing=may_be_missing) == 1
    assert capsys.readouterr().err == "a 1.0: PYSEC-1, mended in 2.0\n"


@pytest.mark.parametrize(
    "command",
    [
        saying("", "Traceback …\nERROR: no connection", 1),
        saying("", "ERROR: no connection", 0),
        saying("{}", "ERROR: no connection", 0),
        saying({"dependencies": [{"name": "a", "skip_reason": "no connection"}]}),
    ],
)
def test_a_service_that_cannot_be_reached_is_no_clean_bill(
    audit: ModuleType, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    verdict = audit.asked(command)
    assert audit.exit_code(verdict, may_be_missing=False) == 2
    assert audit.exit_code(verdict, may_be_missing=True) == 0
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("THE AUDIT OF PACKAGES WAS NOT DONE") == 2
    assert output.err.count("no connection") == 2


def test_a_vulnerability_is_reported_even_if_other_packages_are_unknown(audit: ModuleType) -> None:
    unknown = {"name": "b", "skip_reason": "not found"}
    verdict = audit.asked(saying({"dependencies": [package(HOLE), unknown]}, code=1))
    assert (len(verdict.holes), verdict.packages) == (1, None)
    assert audit.exit_code(verdict, may_be_missing=True) == 1


def test_all_that_an_installation_needs_is_asked_for(audit: ModuleType) -> None:
    names = {line.partition("==")[0] for line in audit.installed()}
    assert {"fastapi", "starlette", "pillow", "lxml", "yt-dlp", "obstore", "mcp"} <= names
    assert "pytest" not in names


def exceptions() -> Iterator[str]:
    for file in [*ROOT.glob("src/**/*.py"), *ROOT.glob("scripts/*.py")]:
        yield from re.findall(r"#\s*nosec\b.*", file.read_text())


def test_every_exception_of_bandit_has_its_reason() -> None:
    entries = list(exceptions())
    assert [one for one in entries if not re.fullmatch(r"# nosec B\d+  # .{8,}", one)] == []
    text = (ROOT / "pyproject.toml").read_text()
    skipped = tomllib.loads(text)["tool"]["bandit"]["skips"]
    reasons = [rf'^  "{code}",  # .{{10,}}' for code in skipped]
    assert [one for one in reasons if not re.search(one, text, re.M)] == []
