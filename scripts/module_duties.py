"""Generates the table of packages in docs/explanation/architecture.md from their docstrings."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "secretary"

#: In the order in which a job passes through them. The script fails if a package is missing here.
ORDER = [
    "api",
    "cli",
    "client",
    "jobs",
    "store",
    "worker",
    "handlers",
    "documents",
    "media",
    "web",
    "llm",
    "storage",
    "network",
    "webhooks",
    "observability",
    "migration",
    "core",
    "config",
    "app",
    "serve",
    "errors",
    "version",
]
OMITTED = {"__init__", "__main__"}


def table() -> str:
    purposes = dict(_purposes())
    if wrong := set(ORDER) ^ (purposes.keys() - OMITTED):
        raise SystemExit(
            f"Update ORDER in scripts/module_duties.py, which does not match: {sorted(wrong)}"
        )
    rows = "\n".join(f"| `{name}` | {purposes[name]} |" for name in ORDER)
    return f"| package | purpose |\n|---|---|\n{rows}\n"


def _purposes() -> Iterator[tuple[str, str]]:
    for path in PACKAGE.iterdir():
        file = path / "__init__.py" if path.is_dir() else path
        if file.suffix == ".py" and file.is_file():
            text = ast.get_docstring(ast.parse(file.read_text())) or ""
            yield path.stem, _first_sentence(" ".join(text.partition("\n\n")[0].split()))


def _first_sentence(text: str) -> str:
    end = text.find(". ")
    return f"{text.rstrip(':.') if end < 0 else text[:end]}."
