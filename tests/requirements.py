"""What tests need and a machine may not have: without it they are skipped, but in CI they fail."""

import os
import shutil
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """`what` is a sentence."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


def needed(*programs: str) -> str:
    """Where the first of these programs is that is here."""
    for program in programs:
        if (executable := shutil.which(program)) is not None:
            return executable
    missing(f"There is no {programs[0]}")
