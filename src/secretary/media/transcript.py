"""Writes transcripts: Markdown with chapters and slides, plain text, subtitles and results."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from ..core.errors import FileCorrupt
from ..core.json_codec import clean_text, encode_json
from ..documents.assembly import MAX_RESULTS_BYTES, RESULTS_FILE
from ..documents.markdown import escape_line_start
from ..storage import append_log
from .probe import Chapter
from .speech.engines import TimedText, Transcription
from .subtitles import as_srt, as_vtt

TEXT_FILE, MARKDOWN_FILE = "transcript.txt", "transcript.md"
SRT_FILE, VTT_FILE = "transcript.srt", "transcript.vtt"
#: Prefix of the files in the spoken language if those above are a translation.
ORIGINAL = "original_"
#: A paragraph ends at a pause of this many seconds, at the end of a sentence once it has `LONG`
#: characters, and at `LONGEST` characters in any case.
PAUSE = 2.0
LONG, LONGEST = 600, 1500
_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")  # noqa: RUF001


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTranscript:
    """A transcript in an append log, with one record per chunk."""

    directory: str
    #: The chunks are numbered from 0.
    chunk_count: int
    language: str
    made_after: float = 0.0

    def segments(self) -> Iterator[TimedText]:
        for chunk in self.chunks():
            yield from chunk.segments

    def chunks(self) -> Iterator[Transcription]:
        records = append_log.index(self.directory, made_after=self.made_after)
        if not all(number in records for number in range(self.chunk_count)):
            raise FileCorrupt("A part of the transcript is missing from the cache; try again")
        for record in append_log.read(records[number] for number in range(self.chunk_count)):
            yield decode_record(record)


def encode_record(transcription: Transcription) -> bytes:
    return encode_json(
        {
            "language": transcription.language,
            "confidence": transcription.confidence,
            "unclear": transcription.unclear,
            "said": [tuple(segment) for segment in transcription.segments],
        }
    )


def decode_record(record: bytes) -> Transcription:
    values = orjson.loads(record)
    segments = tuple(
        TimedText(start, end, clean_text(text)) for start, end, text in values.pop("said")
    )
    return Transcription(**values, segments=segments)


class TranscriptImage(NamedTuple):
    """A slide or another image, shown from this second on."""

    time: float
    file: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The content of a transcript, and the directory to write it to."""

    directory: str
    #: None if the recording was not transcribed.
    spoken: StoredTranscript | None
    #: None if the transcript stays in the spoken language.
    translation: StoredTranscript | None = None
    title: str | None = None
    chapters: Sequence[Chapter] = ()
    images: Sequence[TranscriptImage] = ()


def write_transcript(transcript: Transcript) -> None:
    """Write the files, and the part of the results that may be long."""
    directory = Path(transcript.directory)
    spoken, translation = transcript.spoken, transcript.translation
    source = translation or spoken
    segments = list(source.segments()) if source is not None else []
    if source is not None:
        _write_texts(directory, segments)
    if spoken is not None and translation is not None:
        _write_texts(directory, list(spoken.segments()), ORIGINAL)
    blocks = as_markdown(
        segments, title=transcript.title, chapters=transcript.chapters, images=transcript.images
    )
    markdown = clean_text("".join(blocks))
    (directory / MARKDOWN_FILE).write_text(markdown, encoding="utf-8", errors="replace")
    (directory / RESULTS_FILE).write_bytes(encode_json(_results(transcript, segments, markdown)))


def _write_texts(directory: Path, segments: Sequence[TimedText], prefix: str = "") -> None:
    texts = (f"{paragraph.text}\n\n" for paragraph in paragraphs(segments))
    files = {TEXT_FILE: texts, SRT_FILE: as_srt(segments), VTT_FILE: as_vtt(segments)}
    for name, parts in files.items():
        with (directory / (prefix + name)).open("w", encoding="utf-8", errors="replace") as file:
            file.writelines(parts)


def _results(
    transcript: Transcript, segments: Sequence[TimedText], markdown: str
) -> dict[str, Any]:
    """A transcript that is too long for the results is only in the files."""
    is_short = len(markdown) <= MAX_RESULTS_BYTES
    results: dict[str, Any] = {"markdown_content": markdown if is_short else None}
    if transcript.spoken is not None:
        languages = {"source_language": transcript.spoken.language}
        if transcript.translation is not None:
            languages["target_language"] = transcript.translation.language
        results["transcription"] = {
            "text": "\n\n".join(each.text for each in paragraphs(segments)) if is_short else None,
            **languages,
            "segments": [
                {"start": round(start, 3), "end": round(end, 3), "text": text}
                for start, end, text in (segments if is_short else ())
            ],
        }
    return results


def as_markdown(
    segments: Iterable[TimedText],
    *,
    title: str | None,
    chapters: Sequence[Chapter] = (),
    images: Sequence[TranscriptImage] = (),
) -> Iterator[str]:
    """Yield one block at a time, each followed by an empty line."""
    if title:
        yield f"# {escaped_line(title)}\n\n"
    inserts = sorted(
        [
            (each.start, 0, f"## {escaped_line(each.title)} ({format_clock(each.start)})\n\n")
            for each in chapters
        ]
        + [(image.time, 1, _image(image)) for image in images]
    )
    inserted = 0
    for paragraph in paragraphs(segments, [time for time, _, _ in inserts]):
        while inserted < len(inserts) and inserts[inserted][0] <= paragraph.start:
            yield inserts[inserted][2]
            inserted += 1
        yield f"**[{format_clock(paragraph.start)}]** {escaped_line(paragraph.text)}\n\n"
    for _, _, block in inserts[inserted:]:
        yield block


def _image(image: TranscriptImage) -> str:
    block = f"![{format_clock(image.time)}]({image.file})\n\n"
    lines = [
        escape_line_start(escaped_line(line)) for line in image.text.splitlines() if line.strip()
    ]
    return block + ("\n".join(f"> {line}" for line in lines) + "\n\n" if lines else "")


def escaped_line(text: str) -> str:
    """Join the text to one line and escape it: speech is never markup."""
    escaped = " ".join(text.split()).replace("\\", "\\\\")
    for character in "<>[]*_`#":
        escaped = escaped.replace(character, f"\\{character}")
    return escaped


def paragraphs(segments: Iterable[TimedText], breaks: Sequence[float] = ()) -> Iterator[TimedText]:
    """Join segments to paragraphs; a new one starts at each of the `breaks`."""
    current: TimedText | None = None
    upcoming = iter(sorted(breaks))
    next_break = next(upcoming, None)
    for start, end, text in segments:
        is_break = False
        while next_break is not None and start >= next_break:
            is_break, next_break = True, next(upcoming, None)
        if current is not None and (is_break or _is_complete(current, start)):
            yield current
            current = None
        if current is None:
            current = TimedText(start, end, text.strip())
        else:
            current = TimedText(current.start, end, f"{current.text} {text.strip()}")
    if current is not None:
        yield current


def _is_complete(paragraph: TimedText, next_start: float) -> bool:
    size = len(paragraph.text)
    if next_start - paragraph.end >= PAUSE or size >= LONGEST:
        return True
    return size >= LONG and paragraph.text.endswith(_SENTENCE_ENDS)


def format_clock(seconds: float) -> str:
    """`1:02:03`, or `02:03` within the first hour."""
    minutes, whole = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{whole:02d}" if hours else f"{minutes:02d}:{whole:02d}"
