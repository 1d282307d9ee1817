"""The table of modules in the explanation of the architecture: each tells its duty itself, in the
first sentence of its text."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "secretary"

#: All there are, in the order of the flow. One that is missing here stops the script.
GROUPS = {
    "What is passed around": "job errors event_data resources trace version",
    "The ways in": "api server cli client mcp_tools",
    "What clients may ask": (
        "desk submission parameters secret_parameters bulk reruns schedules registry webhook_rules"
        " events archive"
    ),
    "Jobs that are kept": "store store_copy legacy home",
    "Files that are kept": (
        "files uploads cache depot shipping file_copy file_names file_kinds sound_frames json_bytes"
    ),
    "Work": (
        "worker colleagues executor reporting handler handlers seed isolation lanes upkeep workshop"
    ),
    "Below the work": "processors engines templates sites sandbox remote processes machine",
    "The world outside": "network fetch retry_after sources webhooks signatures",
    "How it goes": "vitals metrics observer spans logs doctor worker_document",
    "Put together": (
        "config document_options media_options download_limits disclosure installation app running"
    ),
}
UNTOLD = {"__init__", "__main__"}


def tables() -> Iterator[str]:
    duties = dict(_duties())
    grouped = [name for names in GROUPS.values() for name in names.split()]
    if wrong := set(grouped) ^ (duties.keys() - UNTOLD):
        raise SystemExit(f"scripts/module_duties.py: in no group, or gone: {sorted(wrong)}")
    for group, names in GROUPS.items():
        yield f"### {group}\n\n| module | duty |\n|---|---|"
        yield "\n".join(f"| `{name}` | {duties[name]} |" for name in names.split()) + "\n"


def _duties() -> Iterator[tuple[str, str]]:
    for path in PACKAGE.iterdir():
        file = path / "__init__.py" if path.is_dir() else path
        if file.suffix == ".py" and file.is_file():
            text = ast.get_docstring(ast.parse(file.read_text())) or ""
            yield path.stem, _first_sentence(" ".join(text.partition("\n\n")[0].split()))


def _first_sentence(text: str) -> str:
    end = text.find(". ")
    return f"{text.rstrip(':.') if end < 0 else text[:end]}."
