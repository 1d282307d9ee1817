"""Where converted files go: to a directory, each under a name of its own, or to standard output."""

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ..errors import UnsupportedFile
from .output import complain, say
from .place import Document, Place


@dataclass(frozen=True, slots=True)
class Converted:
    """What came of a file: its text, "" when there is none, and the files beside it."""

    file: Path
    markdown: str
    pictures: Sequence[Path] = ()
    subtitles: Sequence[Path] = ()


async def gathered(place: Place, file: Path, job: Document, directory: Path) -> Converted:
    """What an ended job has made; what must be fetched goes to the directory."""
    results = job["results"] or {}

    async def found(links: Iterable[str]) -> list[Path]:
        paths = [await place.file(job, link, directory) for link in links]
        return [path for path in paths if path is not None]

    texts = await found([results["markdown_file"]] if results.get("markdown_file") else [])
    if texts:
        text = texts[0].read_text(encoding="utf-8", errors="replace")
    else:
        text = results.get("markdown_content") or results.get("extracted_text") or ""
    markdown = text.strip("\n") + "\n" if text.strip() else ""
    pictures = await found(results.get("assets") or [])
    subtitles = await found(link for link in (results.get("subtitles") or {}).values() if link)
    return Converted(file, markdown, pictures, subtitles)


class Output:
    """`directory` None means standard output."""

    def __init__(
        self, directory: Path | None, files: Sequence[Path], *, subtitles: bool = False
    ) -> None:
        self._directory = directory
        self._subtitles = subtitles
        self._several = len(files) > 1
        #: Nothing is written over: neither what is being read nor what was just written.
        self._taken = {file.resolve() for file in files}

    @property
    def is_printing(self) -> bool:
        return self._directory is None

    def put(self, converted: Converted) -> None:
        markdown = converted.markdown
        pictures = converted.pictures if self._directory is not None else []
        if not markdown and not pictures:
            raise UnsupportedFile("There is no text in it")
        if self._directory is None:
            head = f"<!-- {converted.file.name.replace('--', '- -')} -->\n\n"
            sys.stdout.write((head if self._several else "") + markdown)
            sys.stdout.flush()
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._free_path(converted.file)
        if not markdown:  # pictures alone were asked for
            markdown = "".join(f"![]({picture.name})\n\n" for picture in pictures)
        _write(path, _put_pictures(path.with_name(f"{path.stem}_files"), pictures, markdown))
        say(str(path))
        for subtitles in converted.subtitles if self._subtitles else []:
            beside = path.with_suffix(subtitles.suffix)
            if beside.exists():  # someone's own, by which we may have gone
                complain(f"{beside} is there already and stays as it is")
                continue
            _write(beside, subtitles.read_text(encoding="utf-8"))
            say(str(beside))

    def _free_path(self, file: Path) -> Path:
        assert self._directory is not None
        names = [f"{file.stem}.md", f"{file.name}.md"]
        names += [f"{file.name}-{number}.md" for number in range(2, len(self._taken) + 2)]
        paths = (self._directory / name for name in names)
        path = next(path for path in paths if path.resolve() not in self._taken)
        self._taken.add(path.resolve())
        return path


def _put_pictures(directory: Path, pictures: Sequence[Path], markdown: str) -> str:
    """The Markdown with links that lead there."""
    for picture in pictures:
        directory.mkdir(exist_ok=True)
        shutil.copyfile(picture, directory / picture.name)
        link = f"]({quote(directory.name)}/{picture.name})"
        markdown = markdown.replace(f"]({picture.name})", link)
    return markdown


def _write(path: Path, text: str) -> None:
    """All of it or nothing."""
    unfinished = path.with_name(f".{path.name}.part")
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
