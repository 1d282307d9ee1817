"""The document of a conference talk: its text, values for the template, and files."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from ..core.json_codec import encode_json
from ..documents.assembly import MAX_RESULTS_BYTES
from ..media.transcript import SRT_FILE, TEXT_FILE, VTT_FILE, format_clock
from ..web.paths import SessionPaths
from .parameters import Frame, MissingPart

#: Texts of the document that come from neither a model nor a template, by language.
LABELS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "about": "About the talk",
        "transcript": "Transcript",
        "slide": "Slide",
        "text": "Text",
        "video": "Video",
        "files": "Transcript: {}",
        "missing": "Not available",
        "no_model": "This document has no summary: no language model is set.",
        "missing page": "The page",
        "missing video": "The video",
        "missing subtitles": "The subtitles",
        "missing slides": "The slides",
    },
    "de": {
        "about": "Über den Vortrag",
        "transcript": "Mitschrift",
        "slide": "Folie",
        "text": "Text",
        "video": "Video",
        "files": "Mitschrift: {}",
        "missing": "Nicht verfügbar",
        "no_model": "Ohne Zusammenfassung: Es ist kein Sprachmodell eingestellt.",
        "missing page": "Die Seite",
        "missing video": "Das Video",
        "missing subtitles": "Die Untertitel",
        "missing slides": "Die Folien",
    },
}


#: Files of a transcript that are published with the document.
TRANSCRIPT_FILES = (TEXT_FILE, SRT_FILE, VTT_FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkTranscript:
    """The transcript of a talk; `directory` contains its files."""

    directory: Path
    language: str
    text: str
    markdown: str
    #: Slides found in the video.
    frames: Sequence[Frame] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkSlide:
    """A page of the slides, or a frame of the video."""

    number: int
    image: Path | None
    text: str
    time: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """All that is known about a talk."""

    facts: Mapping[str, Any]
    language: str
    page_text: str = ""
    links: Sequence[tuple[str, str]] = ()
    transcript: TalkTranscript | None = None
    slides: Sequence[TalkSlide] = ()
    missing: Sequence[MissingPart] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.page_text.strip() or self.transcript or self.slides)

    @property
    def labels(self) -> Mapping[str, str]:
        return LABELS.get(self.language, LABELS["en"])


def source_text(talk: Talk) -> str:
    """All texts of the talk, for a model."""
    parts = []
    if talk.page_text.strip():
        parts.append(f"# The page of the talk\n\n{talk.page_text.strip()}")
    if talk.transcript is not None:
        parts.append(f"# Transcript of the video\n\n{talk.transcript.text.strip()}")
    texts = [
        f"## Slide {slide.number}\n\n{slide.text.strip()}"
        for slide in talk.slides
        if slide.text.strip()
    ]
    if texts:
        parts.append("# Texts of the slides\n\n" + "\n\n".join(texts))
    return "\n\n".join(parts)


def template_context(talk: Talk, paths: SessionPaths) -> dict[str, Any]:
    """Values for the template. What the talk lacks is empty, not missing."""
    facts = {name: value if value is not None else "" for name, value in talk.facts.items()}
    return {
        **facts,
        "target_language": talk.language,
        "video": _video(talk, paths),
        "slides": _slides(talk, paths),
        "links": "\n".join(f"- [{_one_line(title)}]({url})" for title, url in talk.links),
    }


def _video(talk: Talk, paths: SessionPaths) -> str:
    lines = []
    if url := talk.facts.get("video_url"):
        lines.append(f"[{talk.labels['video']}]({url})")
    if talk.transcript is not None:
        directory = quote(str(paths.assets_from_document))
        files = ", ".join(f"[{name}]({directory}/{name})" for name in TRANSCRIPT_FILES)
        lines.append(talk.labels["files"].format(files))
    return "\n\n".join(lines)


def _slides(talk: Talk, paths: SessionPaths) -> str:
    """A table of the images and texts."""
    if not talk.slides:
        return ""
    directory = quote(str(paths.assets_from_document))
    rows = [f"| {talk.labels['slide']} | {talk.labels['text']} |", "|---|---|"]
    for slide in talk.slides:
        name = f"{talk.labels['slide']} {slide.number}"
        if slide.time is not None:
            name += f" ({format_clock(slide.time)})"
        image = f"![{name}]({directory}/{slide.image.name})" if slide.image else name
        rows.append(f"| {image} | {_table_cell(slide.text)} |")
    return "\n".join(rows)


def appendix(talk: Talk, *, has_model: bool) -> str:
    """What is added below the template: all texts if there is no model, and the missing parts."""
    blocks = []
    labels = talk.labels
    if not has_model:
        blocks.append(f"> {labels['no_model']}")
        if talk.page_text.strip():
            blocks.append(f"## {labels['about']}\n\n{_lower_headings(talk.page_text)}")
        if talk.transcript is not None:
            blocks.append(
                f"## {labels['transcript']}\n\n{_lower_headings(talk.transcript.markdown)}"
            )
    if talk.missing:
        lines = [
            f"- {labels[f'missing {part.part}']}"
            + (f" ({part.url})" if part.url else "")
            + f": {_one_line(part.error.message)}"
            for part in talk.missing
        ]
        blocks.append(f"## {labels['missing']}\n\n" + "\n".join(lines))
    return "\n\n".join(blocks)


def _lower_headings(markdown: str) -> str:
    """Move the headings two levels down, below those of the document."""
    return "\n".join(
        f"##{line}" if line.startswith("#") else line for line in markdown.strip().splitlines()
    )


def _table_cell(text: str) -> str:
    lines = (_escape(" ".join(line.split())) for line in text.splitlines() if line.strip())
    return "<br>".join(lines)


def _escape(text: str) -> str:
    for character in "\\<>[]*_`#|":
        text = text.replace(character, f"\\{character}")
    return text


def _one_line(text: str) -> str:
    return _escape(" ".join(text.split()))


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
        if text is None or len(text) > room:
            continue
        room -= len(text)
        results[name] = text
    return encode_json(results)


def write_files(directory: Path, paths: SessionPaths, talk: Talk, markdown: str) -> list[str]:
    """Write the directory tree of the talk, and return the names of its assets."""
    document, assets = directory / paths.document, directory / paths.assets
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text(markdown, encoding="utf-8", errors="replace")
    images = [slide.image for slide in talk.slides if slide.image is not None]
    transcript = (
        [talk.transcript.directory / name for name in TRANSCRIPT_FILES] if talk.transcript else []
    )
    for path in (*images, *transcript):
        assets.mkdir(parents=True, exist_ok=True)
        _link_or_copy(path, assets / path.name)
    return [f"{paths.assets}/{path.name}" for path in (*images, *transcript)]


def publish(directory: Path, root: Path) -> None:
    """Copy the tree to `root`, which has those of all talks, replacing files of the same name."""
    for path in directory.rglob("*"):
        target = root / path.relative_to(directory)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            # A unique name: translations of a talk share files and may be written concurrently.
            unfinished = target.with_name(f".{uuid4().hex}")
            try:
                _link_or_copy(path, unfinished)
                os.replace(unfinished, target)
            finally:
                unfinished.unlink(missing_ok=True)


def _link_or_copy(path: Path, target: Path) -> None:
    """A hard link, where possible: the scratch directory is removed, linked files stay."""
    try:
        os.link(path, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, target)
