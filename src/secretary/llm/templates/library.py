"""The template library: shipped templates, and those of the operator, which take precedence."""

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ...core.errors import InvalidTemplate, UnknownTemplate
from ...core.languages import language_code
from .parsing import MAX_LENGTH, invalid_template, parse
from .template import Diagnostic, Template

SHIPPED = Path(__file__).parent / "shipped"
SUFFIX = ".md"
MAX_NAME = 100
MAX_FILES = 1000
MAX_BYTES = 4 * MAX_LENGTH  # no character takes more
NAME = re.compile(rf"\w[\w .-]{{0,{MAX_NAME - 1}}}")
VARIANT = re.compile(r"(.+)_([a-z]{2})")

#: German names of the shipped templates, kept for existing clients.
GERMAN_NAMES = {
    "blogeintrag": "blog_de",
    "dokumentanalyse": "document_de",
    "metadaten": "metadata_de",
}

Origin = Literal["own", "shipped"]
ORIGINS: tuple[Origin, ...] = ("own", "shipped")


@dataclass(frozen=True, slots=True)
class ListedTemplate:
    """A template of the library, or the errors in it."""

    name: str
    origin: Origin
    template: Template | None
    faults: tuple[Diagnostic, ...] = ()

    def document(self) -> dict[str, Any]:
        template = self.template or Template(name=self.name, title=self.name)
        return {
            "name": self.name,
            "title": template.title,
            "language": template.language,
            "source": self.origin,
            "fields": [field.document() for field in template.fields],
            "context_keys": list(template.context_keys),
            "faults": [asdict(fault) for fault in self.faults],
        }


@dataclass(frozen=True, slots=True)
class Library:
    """Finds templates by name. Names are compared with those of existing files only, so none can
    lead out of the directories. Changed files are read again."""

    directory: Path | None = None
    _cache: dict[Path, tuple[tuple[int, ...], ListedTemplate]] = field(
        default_factory=dict, repr=False
    )

    def find(self, name: str, *, language: str | None = None) -> Template:
        """The template. Raises an error if it does not exist or is invalid."""
        listed = self.look_up(name, language=language)
        if listed.template is None:
            raise invalid_template(listed.name, listed.faults)
        return listed.template

    def look_up(self, name: str, *, language: str | None = None) -> ListedTemplate:
        """`Session` is found in the given language if possible. `Session_de` is that one if it
        exists, else `Session` with the language `de`. The operator's templates take precedence over
        shipped ones."""
        wanted = name.strip().casefold().removesuffix(SUFFIX)
        if not NAME.fullmatch(wanted):
            text = "The name of a template has only letters, digits, spaces, `.`, `_` and `-`"
            raise UnknownTemplate(text)
        files = self._files()
        by_name = {(origin, path.stem.casefold()): path for origin, path in reversed(files)}
        if not any(key[1] == wanted for key in by_name):
            wanted = GERMAN_NAMES.get(wanted, wanted)
        if listed := self._find_variant(wanted, language, by_name):
            return listed
        variant = VARIANT.fullmatch(wanted)
        code = language_code(variant[2]) if variant else None
        if variant and code and (listed := self._find_variant(variant[1], code, by_name)):
            template = listed.template and replace(listed.template, language=code)
            return replace(listed, template=template)
        available = ", ".join(sorted({path.stem for _, path in files}))
        raise UnknownTemplate(f"The template {wanted} was not found; there are {available}")

    def _find_variant(
        self, wanted: str, language: str | None, by_name: Mapping[tuple[Origin, str], Path]
    ) -> ListedTemplate | None:
        # `de` for `de-AT` and for `German`; none for an unknown language.
        tag = (language or "").strip().lower().replace("_", "-").partition("-")[0]
        code = language_code(language or "") or (tag if len(tag) == 2 and tag.isalpha() else None)
        names = [f"{wanted}_{code}", wanted] if code else [wanted]
        order: list[tuple[Origin, str]]
        order = [(origin, name) for origin in ORIGINS for name in names]
        order += [(origin, f"{wanted}_en") for origin in ORIGINS]
        variants = [(key, VARIANT.fullmatch(key[1])) for key in sorted(by_name)]
        order += [key for key, match in variants if match and match[1] == wanted]
        for key in order:
            if key in by_name:
                return self._read(key[0], by_name[key])
        return None

    def listed(self) -> list[ListedTemplate]:
        """All templates by name; one of the operator hides a shipped one of the same name."""
        templates: dict[str, ListedTemplate] = {}
        for origin, path in self._files():
            templates.setdefault(path.stem.casefold(), self._read(origin, path))
        return [templates[name] for name in sorted(templates)]

    def _files(self) -> list[tuple[Origin, Path]]:
        return [
            (origin, path)
            for directory, origin in zip((self.directory, SHIPPED), ORIGINS, strict=True)
            if directory is not None
            for path in sorted(_paths(directory))[:MAX_FILES]
        ]

    def _read(self, origin: Origin, path: Path) -> ListedTemplate:
        name, template = path.stem, None
        faults: tuple[Diagnostic, ...] = ()
        try:
            status = os.stat(path)
            version = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
            cached = self._cache.get(path)
            if cached and cached[0] == version:
                return cached[1]
            match = VARIANT.fullmatch(name.casefold())
            template = parse(read(path), name, language=match[2] if match else None)
        except OSError:
            faults = (Diagnostic(1, "The file cannot be read"),)
            return ListedTemplate(name, origin, None, faults)
        except InvalidTemplate as error:
            faults = tuple(Diagnostic(**fault) for fault in error.details["faults"])
        listed = ListedTemplate(name, origin, template, faults)
        self._cache[path] = version, listed
        return listed


def _paths(directory: Path) -> Iterator[Path]:
    """Symbolic links may point to files in the same directory, as Kubernetes mounts them."""
    try:
        home = directory.resolve(strict=True)
        names = os.listdir(home)
    except (OSError, RuntimeError):
        return
    for name in names:
        path = home / name
        if path.suffix.lower() == SUFFIX and NAME.fullmatch(path.stem):
            # RuntimeError: a loop of links.
            with suppress(OSError, RuntimeError):
                mode = path.lstat().st_mode
                is_link = stat.S_ISLNK(mode) and path.resolve(strict=True).is_relative_to(home)
                if stat.S_ISREG(mode) or (is_link and path.is_file()):
                    yield path


def read(path: Path) -> str:
    """Read a file, without blocking on pipes and no further than a template can be long."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "It is not a file")
        content = opened.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise invalid_template(path.stem, [Diagnostic(1, f"It is longer than {MAX_BYTES:,} bytes")])
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise invalid_template(path.stem, [Diagnostic(line, "This is not UTF-8")]) from None
