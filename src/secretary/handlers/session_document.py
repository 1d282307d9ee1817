"""The document about a talk: its parts, the files that belong to it, and where they are."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..core.files import atomic_write
from ..core.json_codec import clean_texts, encode_json
from ..core.languages import language_code
from ..documents.assembly import MAX_RESULTS_BYTES
from ..media.speech.engines import TimedText
from ..media.transcript import escaped_line, format_clock, paragraphs
from ..web.talk import ROOT, SessionPaths
from .media_pipeline import link_or_copy
from .parameters import Frame, MissingPart, SlideInfo

MAX_SLIDE_TITLE = 200
#: Texts of the document that come from neither a model nor a template, in English and German.
LABELS: Mapping[str, tuple[str, str]] = {
    "about": ("About the talk", "Über den Vortrag"),
    "transcript": ("Transcript", "Mitschrift"),
    "slide": ("Slide", "Folie"),
    "text": ("Text", "Text"),
    "video": ("Video", "Video"),
    "files": ("Transcript: {}", "Mitschrift: {}"),
    "missing": ("Not available", "Nicht verfügbar"),
    "no_model": (
        "This document has no summary: no language model is set.",
        "Ohne Zusammenfassung: Es ist kein Sprachmodell eingestellt.",
    ),
    "missing page": ("The page", "Die Seite"),
    "missing video": ("The video", "Das Video"),
    "missing subtitles": ("The subtitles", "Die Untertitel"),
    "missing slides": ("The slides", "Die Folien"),
    "missing slide_texts": ("The texts of the slides", "Die Texte der Folien"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkTranscript:
    """The transcript of a talk; `directory` contains its files."""

    directory: Path
    language: str
    text: str
    markdown: str
    files: Sequence[str]
    segments: Sequence[TimedText] = ()
    #: Slides found in the video.
    frames: Sequence[Frame] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkSlide:
    """A page of the slides, or a frame of the video."""

    number: int
    image: Path | None
    text: str
    #: When it was first shown.
    time: float | None = None
    #: The frames of the video that show it.
    frames: Sequence[Frame] = ()

    @property
    def title(self) -> str:
        """Its first line."""
        lines = (line.strip() for line in self.text.splitlines())
        return next((line for line in lines if line), "")[:MAX_SLIDE_TITLE]


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """All that is known about a talk."""

    facts: Mapping[str, Any]
    language: str
    page_text: str
    links: Sequence[tuple[str, str]]
    transcript: TalkTranscript | None
    slides: Sequence[TalkSlide]
    missing: Sequence[MissingPart]

    @property
    def spoken_in(self) -> str | None:
        """The language of the talk; None if it is unknown."""
        if self.transcript is not None:
            return self.transcript.language
        return language_code(self.facts["source_language"] or "")

    @property
    def labels(self) -> Mapping[str, str]:
        is_german = self.language == "de"
        return {name: german if is_german else text for name, (text, german) in LABELS.items()}


def source_text(talk: Talk) -> str:
    """All texts of the talk, for a model."""
    slides = (
        f"## Slide {slide.number}\n\n{slide.text.strip()}"
        for slide in talk.slides
        if slide.text.strip()
    )
    texts = {
        "The page of the talk": talk.page_text.strip(),
        "Transcript of the video": aligned_transcript(talk),
        "Texts of the slides": "\n\n".join(slides),
    }
    return "\n\n".join(f"# {heading}\n\n{text}" for heading, text in texts.items() if text)


def aligned_transcript(talk: Talk) -> str:
    """The transcript, with a heading for each slide where it was shown."""
    if talk.transcript is None:
        return ""
    shown = sorted((frame.time, slide.number) for slide in talk.slides for frame in slide.frames)
    if not shown or not talk.transcript.segments:
        return talk.transcript.text.strip()
    parts = [
        (time, 0, f"## From {format_clock(time)}: slide {number} is shown")
        for time, number in shown
    ]
    spoken = paragraphs(talk.transcript.segments, [time for time, _ in shown])
    parts += [(paragraph.start, 1, paragraph.text) for paragraph in spoken]
    return "\n\n".join(text for _, _, text in sorted(parts))


def slide_infos(
    talk: Talk, paths: SessionPaths, described: Sequence[Mapping[str, Any]] = ()
) -> list[SlideInfo]:
    """The slides as clients read them. `described` are the titles and summaries of a model."""
    by_number = {item.get("page_num"): item for item in described}
    directory = paths.assets.relative_to(ROOT)
    return [
        SlideInfo(
            page_num=slide.number,
            title=str(by_number.get(slide.number, {}).get("title") or slide.title),
            summary=str(by_number.get(slide.number, {}).get("summary") or ""),
            image_url=f"{directory}/{slide.image.name}" if slide.image else "",
            time=slide.time,
        )
        for slide in talk.slides
    ]


def template_context(talk: Talk, paths: SessionPaths) -> dict[str, Any]:
    """Values for the template. What the talk lacks is empty, not missing."""
    labels, directory = talk.labels, quote(str(paths.assets_from_document))
    video = []
    if url := talk.facts.get("video_url"):
        video.append(f"[{labels['video']}]({url})")
    if talk.transcript is not None:
        files = ", ".join(f"[{name}]({directory}/{name})" for name in talk.transcript.files)
        video.append(labels["files"].format(files))
    table = [f"| {labels['slide']} | {labels['text']} |", "|---|---|"] if talk.slides else []
    for slide in talk.slides:
        name = f"{labels['slide']} {slide.number}"
        if slide.time is not None:
            name += f" ({format_clock(slide.time)})"
        image = f"![{name}]({directory}/{slide.image.name})" if slide.image else name
        text = "<br>".join(_one_line(line) for line in slide.text.splitlines() if line.strip())
        table.append(f"| {image} | {text} |")
    return {
        **{name: value if value is not None else "" for name, value in talk.facts.items()},
        "target_language": talk.language,
        "video": "\n\n".join(video),
        "videoplayer": "\n\n".join(video),
        "video_transcript": talk.transcript.text if talk.transcript else "",
        "slides": "\n".join(table),
        "links": "\n".join(f"- [{_one_line(title)}]({url})" for title, url in talk.links),
    }


#: A frame in the Markdown of a video, and its text.
FRAME = re.compile(r"!\[([^\]\n]*)\]\((frame_[\w.-]+)\)\n\n((?:>[^\n]*\n)+\n)?")


def transcript_markdown(talk: Talk, paths: SessionPaths) -> str:
    """The transcript with links that are valid in the document. A frame that shows a page of the
    slides is replaced by that page."""
    assert talk.transcript is not None
    directory = quote(str(paths.assets_from_document))
    pages = {
        frame.file: slide.image.name
        for slide in talk.slides
        for frame in slide.frames
        if slide.image is not None
    }

    def link(match: re.Match[str]) -> str:
        clock, file, text = match.groups()
        page = pages.get(file, file)
        return f"![{clock}]({directory}/{page})\n\n" + ((text or "") if page == file else "")

    return FRAME.sub(link, talk.transcript.markdown)


def appendix(talk: Talk, paths: SessionPaths, *, has_model: bool) -> str:
    """What is added below the template: all texts if there is no model, and the missing parts."""
    blocks = []
    labels = talk.labels
    if not has_model:
        blocks.append(f"> {labels['no_model']}")
        if talk.page_text.strip():
            blocks.append(f"## {labels['about']}\n\n{_lower_headings(talk.page_text)}")
        if talk.transcript is not None:
            text = _lower_headings(transcript_markdown(talk, paths))
            blocks.append(f"## {labels['transcript']}\n\n{text}")
    lines = [
        f"- {labels[f'missing {part.part}']}"
        + (f" ({part.url})" if part.url else "")
        + f": {_one_line(part.error.message)}"
        for part in talk.missing
        if f"missing {part.part}" in labels
    ]
    if lines:
        blocks.append(f"## {labels['missing']}\n\n" + "\n".join(lines))
    return "\n\n".join(blocks)


def _lower_headings(markdown: str) -> str:
    """Move the headings two levels down, below those of the document."""
    return "\n".join(
        f"##{line}" if line.startswith("#") else line for line in markdown.strip().splitlines()
    )


def _one_line(text: str) -> str:
    """Escaped for Markdown, also inside a table."""
    return escaped_line(text).replace("|", "\\|")


def long_results(talk: Talk, structured: Mapping[str, Any], markdown: str) -> bytes:
    """The part of the results that is stored in a file. Texts that are too long for a response are
    left out."""
    slides = "\n\n".join(slide.text.strip() for slide in talk.slides if slide.text.strip())
    texts = {
        "markdown_content": markdown,
        "web_text": talk.page_text or None,
        "video_transcript": talk.transcript.text if talk.transcript else None,
        "attachments_text": slides or None,
    }
    room = MAX_RESULTS_BYTES
    results: dict[str, Any] = {"structured_data": dict(structured)}
    for name, text in texts.items():
        if text is not None and len(text) <= room:
            room -= len(text)
            results[name] = text
    return encode_json(clean_texts(results))


def write_page_texts(directory: Path, talk: Talk) -> list[str]:
    """Write the text of each slide beside the directory tree, and return the names."""
    names = []
    for slide in talk.slides:
        if slide.text.strip():
            name = f"pages/page_{slide.number:03d}.txt"
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(slide.text, encoding="utf-8", errors="replace")
            names.append(name)
    return names


def write_files(directory: Path, paths: SessionPaths, talk: Talk, markdown: str) -> list[str]:
    """Write the directory tree of the talk, and return the names of its assets."""
    document, assets = directory / paths.document, directory / paths.assets
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text(markdown, encoding="utf-8", errors="replace")
    files = [slide.image for slide in talk.slides if slide.image is not None]
    if talk.transcript:
        names = [*talk.transcript.files, *(frame.file for frame in other_frames(talk))]
        files += [talk.transcript.directory / name for name in names]
    for path in files:
        assets.mkdir(parents=True, exist_ok=True)
        link_or_copy(path, assets / path.name)
    return [f"{paths.assets}/{path.name}" for path in files]


def other_frames(talk: Talk) -> list[Frame]:
    """Frames of the video that show no page of the slides, such as a demonstration."""
    if talk.transcript is None:
        return []
    used = {frame.file for slide in talk.slides for frame in slide.frames}
    return [frame for frame in talk.transcript.frames if frame.file not in used]


def publish(directory: Path, root: Path) -> None:
    """Copy the tree to `root`, which has those of all talks of a user, replacing files of the same
    name."""
    for path in directory.rglob("*"):
        if path.is_file():
            target = root / path.relative_to(directory)
            target.parent.mkdir(parents=True, exist_ok=True)
            # A unique name: translations of a talk share files and may be written concurrently.
            with atomic_write(target) as temporary:
                link_or_copy(path, temporary)
