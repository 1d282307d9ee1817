"""The templates there are: those that come with the program, and those of the operator."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from ...core.errors import InvalidTemplate, UnknownTemplate
from .parsing import LARGEST, parse, unusable
from .template import Fault, Template, language_code

SHIPPED = Path(__file__).parent / "shipped"
SUFFIX = ".md"
LONGEST_NAME = 100
MOST_FILES = 1000
MOST_BYTES = 4 * LARGEST  # no character takes more
NAME = re.compile(rf"\w[\w .-]{{0,{LONGEST_NAME - 1}}}")
VARIANT = re.compile(r"(.+)_([a-z]{2})")

#: What those are called by that have always been called so.
GERMAN_NAMES = {
    "besprechung": "meeting_de",
    "gedanken": "notes_de",
    "blogeintrag": "blog_de",
    "dokumentanalyse": "document_de",
    "metadaten": "metadata_de",
}

Origin = Literal["own", "shipped"]
ORIGINS: tuple[Origin, ...] = ("own", "shipped")


@dataclass(frozen=True, slots=True)
class Listed:
    """A template of the library, or what keeps it from being one."""

    name: str
    origin: Origin
    template: Template | None
    faults: tuple[Fault, ...] = ()

    def document(self) -> dict[str, Any]:
        template = self.template
        return {
            "name": self.name,
            "title": template.title if template else self.name,
            "language": template.language if template else None,
            "source": self.origin,
            "fields": [field.document() for field in template.fields] if template else [],
            "context_keys": list(template.keys) if template else [],
            "faults": [asdict(fault) for fault in self.faults],
        }


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    path: Path
    origin: Origin


@dataclass(frozen=True, slots=True)
class Library:
    """Names are only ever compared with those of files that are there: none can lead elsewhere.
    A file is read again when it has changed."""

    directory: Path | None = None
    _known: dict[Path, tuple[tuple[int, ...], Listed]] = field(default_factory=dict, repr=False)

    def find(self, name: str, *, language: str | None = None) -> Template:
        """The template itself, or the error that says why there is none."""
        listed = self.look_up(name, language=language)
        if listed.template is None:
            raise unusable(listed.name, listed.faults)
        return listed.template

    def look_up(self, name: str, *, language: str | None = None) -> Listed:
        """`Session` in the language, if there is one in it; `Session_de` is just that one.
        An own template comes before one that came with the program."""
        wanted = name.strip().casefold().removesuffix(SUFFIX)
        if not NAME.fullmatch(wanted):
            text = "The name of a template has only letters, digits, spaces, `.`, `_` and `-`"
            raise UnknownTemplate(text)
        files = self._files()
        file = _chosen(files, wanted, language_code(language or ""))
        if file is None:
            there = ", ".join(sorted({file.name for file in files}))
            raise UnknownTemplate(f"There is no template {wanted}; there are {there}")
        return self._read(file)

    def listed(self) -> list[Listed]:
        """All of them by name; an own one hides that of the same name."""
        found: dict[str, Listed] = {}
        for file in self._files():
            found.setdefault(file.name.casefold(), self._read(file))
        return [found[name] for name in sorted(found)]

    def _files(self) -> list[_File]:
        own = _files_in(self.directory, "own") if self.directory else []
        return [*own, *_files_in(SHIPPED, "shipped")]

    def _read(self, file: _File) -> Listed:
        try:
            version = _version(os.stat(file.path))
            known = self._known.get(file.path)
            if known and known[0] == version:
                return known[1]
            listed = _parsed(file)
        except OSError:
            return Listed(file.name, file.origin, None, (Fault(1, "The file cannot be read"),))
        self._known[file.path] = version, listed
        return listed


def _chosen(files: list[_File], wanted: str, language: str | None) -> _File | None:
    by_name = {(file.origin, file.name.casefold()): file for file in reversed(files)}
    if not any(key[1] == wanted for key in by_name):
        wanted = GERMAN_NAMES.get(wanted, wanted)
    names = [f"{wanted}_{language}", wanted] if language else [wanted]
    order = [(origin, name) for origin in ORIGINS for name in names]
    order += [(origin, f"{wanted}_en") for origin in ORIGINS]
    order += [key for key in sorted(by_name) if _is_variant(key[1], wanted)]
    return next((by_name[key] for key in order if key in by_name), None)


def _is_variant(name: str, wanted: str) -> bool:
    found = VARIANT.fullmatch(name)
    return found is not None and found[1] == wanted


def _files_in(directory: Path, origin: Origin) -> list[_File]:
    return [_File(path.stem, path, origin) for path in sorted(_paths(directory))[:MOST_FILES]]


def _paths(directory: Path) -> Iterator[Path]:
    """Links may point to files beside them, as where a cluster mounts them, but not elsewhere."""
    try:
        home = directory.resolve(strict=True)
        names = os.listdir(home)
    except (OSError, RuntimeError):
        return
    for name in names:
        path = home / name
        if path.suffix.lower() == SUFFIX and NAME.fullmatch(path.stem):
            # In a loop of links there is neither a file nor an end.
            with suppress(OSError, RuntimeError):
                mode = path.lstat().st_mode
                is_link = stat.S_ISLNK(mode) and path.resolve(strict=True).is_relative_to(home)
                if stat.S_ISREG(mode) or (is_link and path.is_file()):
                    yield path


def _parsed(file: _File) -> Listed:
    found = VARIANT.fullmatch(file.name.casefold())
    try:
        text = read(file.path)
        template = parse(text, file.name, language=found[2] if found else None)
    except InvalidTemplate as error:
        faults = tuple(Fault(**fault) for fault in error.details["faults"])
        return Listed(file.name, file.origin, None, faults)
    return Listed(file.name, file.origin, template)


def read(path: Path) -> str:
    """A file that may be anything: no longer than a template can be, and not waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "It is not a file")
        content = opened.read(MOST_BYTES + 1)
    try:
        if len(content) > MOST_BYTES:
            raise unusable(path.stem, [Fault(1, f"It is longer than {MOST_BYTES:,} bytes")])
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise unusable(path.stem, [Fault(line, "This is not UTF-8")]) from None


def _version(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
