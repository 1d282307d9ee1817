"""A transcript for readers: paragraphs with their times, under chapters, beside the slides."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..engines.speech import Said
from .escapes import opening_escaped
from .media.recording import Chapter

#: A paragraph ends at a pause, or where a sentence ends once it is long enough; at the latest here.
PAUSE = 2.0
LONG, LONGEST = 600, 1500
_ENDS = (".", "!", "?", "…", "。", "！", "？")  # noqa: RUF001


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A slide or another picture, shown from this second on."""

    time: float
    file: str
    text: str = ""


@dataclass(slots=True)
class Paragraph:
    start: float
    end: float
    text: str


def paragraphs(said: Iterable[Said], breaks: Sequence[float] = ()) -> Iterator[Paragraph]:
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
    said: Iterable[Said],
    *,
    title: str | None,
    chapters: Sequence[Chapter] = (),
    pictures: Sequence[Picture] = (),
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
        yield f"**[{short_clock(paragraph.start)}]** {_one_line(paragraph.text)}\n\n"
    for _, _, block in marks[at:]:
        yield block


def _heading(chapter: Chapter) -> str:
    return f"## {_one_line(chapter.title)} ({short_clock(chapter.start)})\n\n"


def _shown(picture: Picture) -> str:
    block = f"![{short_clock(picture.time)}]({picture.file})\n\n"
    lines = [opening_escaped(_one_line(line)) for line in picture.text.splitlines() if line.strip()]
    return block + ("\n".join(f"> {line}" for line in lines) + "\n\n" if lines else "")


def _one_line(text: str) -> str:
    return _plain(" ".join(text.split()))


def _plain(text: str) -> str:
    """What was said is text, whatever it looks like."""
    escaped = text.replace("\\", "\\\\")
    for sign in "<>[]*_`#":
        escaped = escaped.replace(sign, f"\\{sign}")
    return escaped


def short_clock(seconds: float) -> str:
    """`1:02:03`, or `02:03` within the first hour."""
    minutes, whole = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{whole:02d}" if hours else f"{minutes:02d}:{whole:02d}"
