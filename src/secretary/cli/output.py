"""How the command line says things; the tables for people are in `tables`."""

import json
import re
import sys
from enum import IntEnum
from typing import Any

from ..core.errors import (
    AccessDenied,
    InvalidParameters,
    InvalidSettings,
    NotFound,
    RateLimited,
    SecretaryError,
    StoreUnavailable,
)

#: But for tabs and ends of lines: what moves a cursor, or turns the direction of writing.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Names, messages and documents are others': on a terminal they must not be orders to it."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def say(text: str) -> None:
    """A pipe gets all of it as it is."""
    print(printable(text) if sys.stdout.isatty() else text, flush=True)


def complain(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)


def print_json(document: Any) -> None:
    say(json.dumps(document, indent=2, ensure_ascii=False))


def print_json_line(document: Any) -> None:
    """For what goes on: one document a line."""
    say(json.dumps(document, ensure_ascii=False))


class ExitCode(IntEnum):
    FINE = 0
    FAILED = 1
    MISUSED = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    REFUSED = 5
    INTERRUPTED = 130


#: The first that fits; any other error of ours is FAILED.
OF_ERRORS: dict[type[SecretaryError], ExitCode] = {
    InvalidSettings: ExitCode.MISUSED,
    InvalidParameters: ExitCode.MISUSED,
    StoreUnavailable: ExitCode.UNREACHABLE,
    NotFound: ExitCode.NOT_FOUND,
    AccessDenied: ExitCode.REFUSED,
    RateLimited: ExitCode.REFUSED,
}


def exit_code(error: SecretaryError) -> ExitCode:
    fitting = (code for kind, code in OF_ERRORS.items() if isinstance(error, kind))
    return next(fitting, ExitCode.FAILED)
