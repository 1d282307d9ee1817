"""Every test named on the page about threats exists, so that the page cannot promise too much."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from .examples import ROOT

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
PAGE = ROOT / "docs" / "explanation" / "security.md"
NAMED = re.compile(r"`(tests/[\w/.]+\.py)((?:::\w+)*)`")


def named() -> list[tuple[str, str]]:
    """File and test, as `Class::test` or `test`."""
    return [(file, name.removeprefix("::")) for file, name in NAMED.findall(PAGE.read_text())]


@cache
def found_in(file: str) -> frozenset[str]:
    return frozenset(_tests(ast.parse((ROOT / file).read_text()).body))


def _tests(body: list[ast.stmt], before: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from _tests(node.body, f"{before}{node.name}::")
        elif isinstance(node, FUNCTIONS) and node.name.startswith("test_"):
            yield before + node.name


def test_every_test_that_it_names_exists() -> None:
    missing = [
        f"{file}::{name}"
        for file, name in named()
        if not (ROOT / file).is_file() or name not in found_in(file)
    ]
    assert missing == []
    assert len(named()) > 100


@pytest.mark.parametrize("file", ["src/secretary/api/auth.py"])
def test_a_file_without_tests_has_none(file: str) -> None:
    assert found_in(file) == frozenset()


def test_every_threat_has_a_test_or_says_that_there_is_none() -> None:
    rows = [
        line
        for part in re.findall(r"^\| threat \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE.read_text(), re.M)
        for line in part.splitlines()
    ]
    assert len(rows) > 30
    assert [row for row in rows if not NAMED.search(row.split(" | ")[-1])] == []


def test_every_module_that_it_names_exists() -> None:
    modules = re.findall(r"`((?:\w+/)*\w+\.(?:py|js))`", PAGE.read_text())
    assert len(modules) > 20
    package = ROOT / "src" / "secretary"
    assert [name for name in modules if not (package / name).is_file()] == []
