"""Puts what was said together: a text, Markdown, subtitles, and the long part of the results."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ..engines.speech import Heard, Said
from ..errors import FileCorrupt
from ..json_bytes import json_bytes
from . import records
from .assembly import MAX_RESULTS_BYTES, RESULTS_FILE
from .media.recording import Chapter
from .subtitles import as_srt, as_vtt
from .transcript import Picture, as_markdown, paragraphs

TEXT_FILE, MARKDOWN_FILE = "transcript.txt", "transcript.md"
SRT_FILE, VTT_FILE = "transcript.srt", "transcript.vtt"
#: Before the names of files in the language that is spoken, when those above are a translation.
ORIGINAL = "original_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """What is said in a recording: the records of its pieces."""

    directory: str
    #: So many pieces, counted from 0.
    pieces: int
    language: str
    made_after: float = 0.0

    def said(self) -> Iterator[Said]:
        found = records.places(self.directory, made_after=self.made_after)
        if not all(number in found for number in range(self.pieces)):
            raise FileCorrupt("A part of what was heard is gone; try again")
        for line in records.load(found[number] for number in range(self.pieces)):
            yield from heard_in(line).said


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """What to put together."""

    shown: str
    #: None: nobody listened.
    spoken: Spoken | None
    #: None: as it was spoken.
    translated: Spoken | None = None
    title: str | None = None
    chapters: Sequence[Chapter] = ()
    pictures: Sequence[Picture] = ()


def record_of(heard: Heard) -> bytes:
    said = [tuple(one) for one in heard.said]
    told = {
        "language": heard.language,
        "confidence": heard.confidence,
        "unclear": heard.unclear,
        "said": said,
    }
    return json_bytes(told)


def heard_in(record: bytes) -> Heard:
    told = orjson.loads(record)
    return Heard(**{**told, "said": tuple(Said(*one) for one in told["said"])})


def put_together(transcript: Transcript) -> None:
    """Writes the files, and the long part of the results beside them."""
    shown = Path(transcript.shown)
    spoken, translated = transcript.spoken, transcript.translated
    source = translated or spoken
    said = list(source.said()) if source is not None else []
    if source is not None:
        _write_subtitles(shown, said)
    if spoken is not None and translated is not None:
        _write_subtitles(shown, list(spoken.said()), ORIGINAL)
    blocks = as_markdown(
        said, title=transcript.title, chapters=transcript.chapters, pictures=transcript.pictures
    )
    markdown = "".join(blocks)
    _write(shown / MARKDOWN_FILE, [markdown])
    results = _results(transcript, said, markdown)
    (shown / RESULTS_FILE).write_bytes(json_bytes(results))


def _write_subtitles(shown: Path, said: Sequence[Said], prefix: str = "") -> None:
    texts = (f"{paragraph.text}\n\n" for paragraph in paragraphs(said))
    _write(shown / (prefix + TEXT_FILE), texts)
    _write(shown / (prefix + SRT_FILE), as_srt(said))
    _write(shown / (prefix + VTT_FILE), as_vtt(said))


def _write(path: Path, parts: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", errors="replace") as file:
        file.writelines(parts)


def _results(transcript: Transcript, said: Sequence[Said], markdown: str) -> dict[str, Any]:
    """What is too long for an answer is in the files only."""
    is_short = len(markdown) <= MAX_RESULTS_BYTES
    results: dict[str, Any] = {"markdown_content": markdown if is_short else None}
    spoken, translated = transcript.spoken, transcript.translated
    if spoken is None:
        return results
    languages = {"source_language": spoken.language}
    if translated is not None:
        languages["target_language"] = translated.language
    text, segments = None, []
    if is_short:
        text = "\n\n".join(paragraph.text for paragraph in paragraphs(said))
        segments = [
            {"start": round(start, 3), "end": round(end, 3), "text": text}
            for start, end, text in said
        ]
    results["transcription"] = {"text": text, **languages, "segments": segments}
    return results
