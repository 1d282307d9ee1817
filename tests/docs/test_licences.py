"""The licences of the packages in an installation."""

import importlib.util
import subprocess
import sys
from types import ModuleType

import pytest

from .examples import ROOT

SCRIPT = ROOT / "scripts" / "write_licences.py"
VENDOR = ROOT / "src" / "secretary" / "dashboard" / "vendor"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_licences", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_package_is_on_the_page_under_a_licence_of_the_list() -> None:
    command = [sys.executable, str(SCRIPT), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_every_extra_is_looked_at(script: ModuleType) -> None:
    licences = script.licences_by_group()
    assert set(licences) == {"", "mcp", "otel", "rapidocr", "s3", "sites"}
    assert {"fastapi", "pymongo", "pypdfium2", "certifi"} <= set(licences[""])
    assert {"requests", "opentelemetry-sdk"} <= set(licences["otel"])


@pytest.mark.parametrize(
    "expression",
    ["MIT", "MPL-2.0 AND (Apache-2.0 OR MIT)", "GPL-2.0-only OR MIT", "(MIT OR (ISC AND 0BSD))"],
)
def test_what_is_permissive_is_allowed(script: ModuleType, expression: str) -> None:
    assert script.is_allowed(expression)


@pytest.mark.parametrize(
    "expression",
    ["", "unknown", "GPL-3.0-only", "AGPL-3.0-only", "MIT AND GPL-3.0-only", "LGPL-3.0-only",
     "MIT AND (GPL-2.0-only OR AGPL-3.0-only)", "(MIT", "MIT)", "MIT MIT", "OR MIT", "SSPL-1.0"],
)  # fmt: skip
def test_all_else_is_not(script: ModuleType, expression: str) -> None:
    assert not script.is_allowed(expression)


def test_what_lies_among_our_own_files_is_named_with_its_licence() -> None:
    page = (ROOT / "docs" / "reference" / "licences.md").read_text()
    names = {file.name.partition("-")[0] for file in VENDOR.glob("*.js")}
    assert names == {"marked", "dompurify"}
    assert [name for name in names if f"| `{name}` |" not in page] == []
    assert [name for name in names if not list(VENDOR.glob(f"{name}-*LICENSE*"))] == []
    fonts = [
        file for file in (ROOT / "src").rglob("*") if file.suffix in (".ttf", ".otf", ".woff2")
    ]
    assert fonts == []
