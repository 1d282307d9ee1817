"""A transcript for readers: paragraphs with their times, under chapters, beside the slides."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ..core.errors import FileCorrupt
from ..core.json_codec import encode_json
from ..documents.assembly import MAX_RESULTS_BYTES, RESULTS_FILE
from ..documents.markdown import escape_line_start
from ..storage import append_log
from .recording import Chapter
from .speech.engines import TimedText, Transcription
from .subtitles import as_srt, as_vtt

#: A paragraph ends at a pause, or where a sentence ends once it is long enough; at the latest here.
PAUSE = 2.0
LONG, LONGEST = 600, 1500
_ENDS = (".", "!", "?", "…", "。", "！", "？")  # noqa: RUF001


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptImage:
    """A slide or another picture, shown from this second on."""

    time: float
    file: str
    text: str = ""


@dataclass(slots=True)
class Paragraph:
    start: float
    end: float
    text: str


def paragraphs(said: Iterable[TimedText], breaks: Sequence[float] = ()) -> Iterator[Paragraph]:
    """Sentences joined to paragraphs; at each of the `breaks` a new one begins."""
    current: Paragraph | None = None
    coming = iter(sorted(breaks))
    border = next(coming, None)
    for start, end, text in said:
        crosses = False
        while border is not None and start >= border:
            crosses, border = True, next(coming, None)
        if current is not None and (crosses or _is_over(current, start)):
            yield current
            current = None
        if current is None:
            current = Paragraph(start, end, text.strip())
        else:
            current.text += f" {text.strip()}"
            current.end = end
    if current is not None:
        yield current


def _is_over(paragraph: Paragraph, next_start: float) -> bool:
    size = len(paragraph.text)
    if next_start - paragraph.end >= PAUSE or size >= LONGEST:
        return True
    return size >= LONG and paragraph.text.endswith(_ENDS)


def as_markdown(
    said: Iterable[TimedText],
    *,
    title: str | None,
    chapters: Sequence[Chapter] = (),
    pictures: Sequence[TranscriptImage] = (),
) -> Iterator[str]:
    """Block by block, each with the empty line behind it."""
    if title:
        yield f"# {_one_line(title)}\n\n"
    marks = sorted(
        [(chapter.start, 0, _heading(chapter)) for chapter in chapters]
        + [(picture.time, 1, _shown(picture)) for picture in pictures]
    )
    at = 0
    for paragraph in paragraphs(said, [time for time, _, _ in marks]):
        while at < len(marks) and marks[at][0] <= paragraph.start:
            yield marks[at][2]
            at += 1
        yield f"**[{format_clock(paragraph.start)}]** {_one_line(paragraph.text)}\n\n"
    for _, _, block in marks[at:]:
        yield block


def _heading(chapter: Chapter) -> str:
    return f"## {_one_line(chapter.title)} ({format_clock(chapter.start)})\n\n"


def _shown(picture: TranscriptImage) -> str:
    block = f"![{format_clock(picture.time)}]({picture.file})\n\n"
    lines = [
        escape_line_start(_one_line(line)) for line in picture.text.splitlines() if line.strip()
    ]
    return block + ("\n".join(f"> {line}" for line in lines) + "\n\n" if lines else "")


def _one_line(text: str) -> str:
    return _plain(" ".join(text.split()))


def _plain(text: str) -> str:
    """What was said is text, whatever it looks like."""
    escaped = text.replace("\\", "\\\\")
    for sign in "<>[]*_`#":
        escaped = escaped.replace(sign, f"\\{sign}")
    return escaped


def format_clock(seconds: float) -> str:
    """`1:02:03`, or `02:03` within the first hour."""
    minutes, whole = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{whole:02d}" if hours else f"{minutes:02d}:{whole:02d}"


TEXT_FILE, MARKDOWN_FILE = "transcript.txt", "transcript.md"
SRT_FILE, VTT_FILE = "transcript.srt", "transcript.vtt"
#: Before the names of files in the language that is spoken, when those above are a translation.
ORIGINAL = "original_"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTranscript:
    """What is said in a recording: the records of its pieces."""

    directory: str
    #: So many pieces, counted from 0.
    chunk_count: int
    language: str
    made_after: float = 0.0

    def segments(self) -> Iterator[TimedText]:
        found = append_log.index(self.directory, made_after=self.made_after)
        if not all(number in found for number in range(self.chunk_count)):
            raise FileCorrupt("A part of what was heard is gone; try again")
        for line in append_log.read(found[number] for number in range(self.chunk_count)):
            yield from decode_record(line).segments


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """What to put together."""

    directory: str
    #: None: nobody listened.
    spoken: StoredTranscript | None
    #: None: as it was spoken.
    translation: StoredTranscript | None = None
    title: str | None = None
    chapters: Sequence[Chapter] = ()
    images: Sequence[TranscriptImage] = ()


def encode_record(heard: Transcription) -> bytes:
    said = [tuple(one) for one in heard.segments]
    told = {
        "language": heard.language,
        "confidence": heard.confidence,
        "unclear": heard.unclear,
        "said": said,
    }
    return encode_json(told)


def decode_record(record: bytes) -> Transcription:
    told = orjson.loads(record)
    segments = tuple(TimedText(*one) for one in told.pop("said"))
    return Transcription(**told, segments=segments)


def write_transcript(transcript: Transcript) -> None:
    """Writes the files, and the long part of the results beside them."""
    shown = Path(transcript.directory)
    spoken, translated = transcript.spoken, transcript.translation
    source = translated or spoken
    said = list(source.segments()) if source is not None else []
    if source is not None:
        _write_subtitles(shown, said)
    if spoken is not None and translated is not None:
        _write_subtitles(shown, list(spoken.segments()), ORIGINAL)
    blocks = as_markdown(
        said, title=transcript.title, chapters=transcript.chapters, pictures=transcript.images
    )
    markdown = "".join(blocks)
    _write(shown / MARKDOWN_FILE, [markdown])
    results = _results(transcript, said, markdown)
    (shown / RESULTS_FILE).write_bytes(encode_json(results))


def _write_subtitles(shown: Path, said: Sequence[TimedText], prefix: str = "") -> None:
    texts = (f"{paragraph.text}\n\n" for paragraph in paragraphs(said))
    _write(shown / (prefix + TEXT_FILE), texts)
    _write(shown / (prefix + SRT_FILE), as_srt(said))
    _write(shown / (prefix + VTT_FILE), as_vtt(said))


def _write(path: Path, parts: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", errors="replace") as file:
        file.writelines(parts)


def _results(transcript: Transcript, said: Sequence[TimedText], markdown: str) -> dict[str, Any]:
    """What is too long for an answer is in the files only."""
    is_short = len(markdown) <= MAX_RESULTS_BYTES
    results: dict[str, Any] = {"markdown_content": markdown if is_short else None}
    spoken, translated = transcript.spoken, transcript.translation
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
