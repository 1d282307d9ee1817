"""The parts of `make bench`: which program measures each, and what makes figures of its samples."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .result import Digest


@dataclass(frozen=True)
class Step:
    """One process: a program of `bench/` and what it is told."""

    name: str
    program: str
    arguments: tuple[str, ...] = ()
    #: Whether a first look goes without it.
    long: bool = False


@dataclass(frozen=True)
class Part:
    name: str
    steps: tuple[Step, ...]
    #: How long it takes, about, before it was ever measured here: in full and as a first look.
    minutes: float
    quick_minutes: float
    #: Programs and environments of others whose versions are told.
    programs: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()

    def digest(self, found: Mapping[str, Any]) -> Digest:
        """Imported when it is needed: the page is written without any of the programs."""
        module = importlib.import_module(f"digests.{self.name}")
        digest: Digest = module.digest(found)
        return digest


PARTS = (
    Part(
        "engine",
        (Step("", "engine.py"),),
        minutes=12,
        quick_minutes=5,
        programs=("mongod", "redis-server"),
        environments=("peers",),
    ),
    Part("api", (Step("", "api.py"),), minutes=4, quick_minutes=0.7, programs=("wrk",)),
    Part(
        "documents",
        (
            Step("", "pages.py"),
            Step("real", "pages.py", ("--only", "quality", "--split", "real"), long=True),
        ),
        minutes=22,
        quick_minutes=3,
        programs=("tesseract",),
        environments=("reader-ocrmypdf",),
    ),
    Part("media", (Step("", "media.py"),), minutes=20, quick_minutes=2),
    Part("knowledge", (Step("", "knowledge.py"),), minutes=1, quick_minutes=0.5),
    Part(
        "dashboard",
        (
            Step("sqlite", "dashboard.py", ("--only", "sqlite")),
            Step("mongodb", "dashboard.py", ("--only", "mongodb")),
        ),
        minutes=6,
        quick_minutes=2,
        programs=("mongod", "chromium"),
    ),
    Part(
        "scale",
        (Step("", "scale.py"),),
        minutes=15,
        quick_minutes=4,
        programs=("mongod", "redis-server"),
        environments=("peers",),
    ),
)
NAMES = tuple(part.name for part in PARTS)
