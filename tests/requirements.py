"""Requirements of tests that a machine may not meet: the tests are then skipped, but fail in CI."""

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
    """The path of the first of these programs that is installed."""
    for program in programs:
        if (executable := shutil.which(program)) is not None:
            return executable
    missing(f"{programs[0]} is not installed")
