"""How the application reads front matter, page markers, archives and event streams."""

import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

#: Below this size, an archive counts as empty.
MIN_ARCHIVE_BYTES = 256
LIST_KEYS = frozenset({
    "chapters", "toc", "confidence", "provenance", "slides", "tags", "authors", "topics",
    "speakers", "speakers_url", "speakers_image_url", "authors_image_url", "attachments_url",
    "galleryImageUrls", "_source_files",
})  # fmt: skip
PAGE_MARKER = re.compile(r"^--- Seite (\d+) ---$", re.MULTILINE)
REFERENCE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
NUMBERED = re.compile(r"^image_(\d+)")


class ClientFailure(AssertionError):
    """The application would show an error, lose data or stop here."""


def require(condition: object, problem: str) -> None:
    if not condition:
        raise ClientFailure(problem)


def front_matter(markdown: str) -> dict[str, Any]:
    """One key per line. Lists must be JSON on that line, and only some keys may hold one."""
    require(re.match(r"---\r?\n", markdown), f"no front matter at offset 0: {markdown[:80]!r}")
    head, found, _ = markdown[:500_000].partition("\n---\n")
    require(found, "the front matter does not end")
    fields: dict[str, Any] = {}
    for line in head.splitlines()[1:]:
        key, colon, text = line.partition(":")
        require(colon and key == key.strip(), f"junk in the front matter: {line!r}")
        fields[key] = _front_matter_value(key, text.strip())
    return fields


def _front_matter_value(key: str, text: str) -> Any:
    require(text != "null", f"{key}: is read as the text null")
    if key in LIST_KEYS and text.startswith("["):
        return json.loads(text)
    if text.startswith('"'):
        return json.loads(text)
    if text in ("true", "false"):
        return text == "true"
    return float(text) if re.fullmatch(r"-?\d+(\.\d+)?", text) else text


def pages(text: str) -> list[int]:
    """The numbers in the page markers."""
    return [int(number) for number in PAGE_MARKER.findall(text)]


def references(markdown: str) -> list[str]:
    return [each for each in REFERENCE.findall(markdown) if "://" not in each]


def archive(content: bytes) -> dict[str, bytes]:
    """The members of a ZIP as the application stores them: without folders, one per name."""
    require(len(content) >= MIN_ARCHIVE_BYTES and content.startswith(b"PK"), "not an archive")
    files: dict[str, bytes] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        for member in opened.infolist():
            name = member.filename.rpartition("/")[2]
            name = NUMBERED.sub(lambda number: f"page_{int(number[1]):03}", name)
            require(name not in files, f"{name} overwrites another file of the archive")
            files[name] = opened.read(member)
    require(files, "the archive is empty")
    for name in files:
        hides = [other for other in files if other != name and other.lower().endswith(name.lower())]
        require(not hides, f"{name} is the end of {hides}")
    return files


def check_references(markdown: str, files: Mapping[str, bytes]) -> None:
    """In folder mode, references are not rewritten: each must be the bare name of a file."""
    for reference in references(markdown):
        require(reference in files, f"{reference} is not one of {sorted(files)}")


def events(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """An event needs `event: name` before a single line `data: json`, both with the blank."""
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: ") and name:
            yield name, json.loads(line.removeprefix("data: "))
            name = ""
