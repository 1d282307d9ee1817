"""How the command line says things; the tables for people are in `tables`."""

import json
import sys
from typing import Any


def say(text: str) -> None:
    print(text, flush=True)


def complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def print_json(document: Any) -> None:
    say(json.dumps(document, indent=2, ensure_ascii=False))


def print_json_line(document: Any) -> None:
    """For what goes on: one document a line."""
    say(json.dumps(document, ensure_ascii=False))
