"""The document of a talk: what it is made of, and its files."""

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
from ..media.transcript import short_clock
from ..web.paths import SessionPaths
from .session_parts import Slide, Transcribed
from .subjobs import Missing

#: What is written by us and by nobody else, by the language of the document.
WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "about": "About the talk",
        "transcript": "Transcript",
        "slide": "Slide",
        "text": "Text",
        "video": "Video",
        "files": "Transcript: {}",
        "missing": "Not to be had",
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
        "missing": "Nicht zu bekommen",
        "no_model": "Ohne Zusammenfassung: Es ist kein Sprachmodell eingestellt.",
        "missing page": "Die Seite",
        "missing video": "Das Video",
        "missing subtitles": "Die Untertitel",
        "missing slides": "Die Folien",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """All that is known about a talk."""

    facts: Mapping[str, Any]
    language: str
    page_text: str = ""
    links: Sequence[tuple[str, str]] = ()
    words: Transcribed | None = None
    slides: Sequence[Slide] = ()
    missing: Sequence[Missing] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.page_text.strip() or self.words or self.slides)

    @property
    def wording(self) -> Mapping[str, str]:
        return WORDS.get(self.language, WORDS["en"])


def source_text(talk: Talk) -> str:
    """All texts, for a model."""
    parts = []
    if talk.page_text.strip():
        parts.append(f"# The page of the talk\n\n{talk.page_text.strip()}")
    if talk.words is not None:
        parts.append(f"# Transcript of the video\n\n{talk.words.text.strip()}")
    texts = [
        f"## Slide {slide.number}\n\n{slide.text.strip()}"
        for slide in talk.slides
        if slide.text.strip()
    ]
    if texts:
        parts.append("# Texts of the slides\n\n" + "\n\n".join(texts))
    return "\n\n".join(parts)


def template_context(talk: Talk, paths: SessionPaths) -> dict[str, Any]:
    """Values for a template. What is known not to be there is empty, not missing."""
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
        lines.append(f"[{talk.wording['video']}]({url})")
    if talk.words is not None:
        where = quote(str(paths.assets_from_document))
        files = ", ".join(f"[{name}]({where}/{name})" for name in Transcribed.FILES)
        lines.append(talk.wording["files"].format(files))
    return "\n\n".join(lines)


def _slides(talk: Talk, paths: SessionPaths) -> str:
    """A table: the picture, and its text."""
    if not talk.slides:
        return ""
    where = quote(str(paths.assets_from_document))
    rows = [f"| {talk.wording['slide']} | {talk.wording['text']} |", "|---|---|"]
    for slide in talk.slides:
        name = f"{talk.wording['slide']} {slide.number}"
        if slide.time is not None:
            name += f" ({short_clock(slide.time)})"
        shown = f"![{name}]({where}/{slide.picture.name})" if slide.picture else name
        rows.append(f"| {shown} | {_in_cell(slide.text)} |")
    return "\n".join(rows)


def appendix(talk: Talk, *, has_model: bool) -> str:
    """What no template asks for: all there is where no model has read it, and what is missing."""
    blocks = []
    wording = talk.wording
    if not has_model:
        blocks.append(f"> {wording['no_model']}")
        if talk.page_text.strip():
            blocks.append(f"## {wording['about']}\n\n{_lowered(talk.page_text)}")
        if talk.words is not None:
            blocks.append(f"## {wording['transcript']}\n\n{_lowered(talk.words.markdown)}")
    if talk.missing:
        lines = [
            f"- {wording[f'missing {one.part}']}"
            + (f" ({one.url})" if one.url else "")
            + f": {_one_line(one.message)}"
            for one in talk.missing
        ]
        blocks.append(f"## {wording['missing']}\n\n" + "\n".join(lines))
    return "\n\n".join(blocks)


def _lowered(markdown: str) -> str:
    """Its headings below those of the document."""
    return "\n".join(
        f"##{line}" if line.startswith("#") else line for line in markdown.strip().splitlines()
    )


def _in_cell(text: str) -> str:
    lines = (_plain(" ".join(line.split())) for line in text.splitlines() if line.strip())
    return "<br>".join(lines)


def _plain(text: str) -> str:
    for sign in "\\<>[]*_`#|":
        text = text.replace(sign, f"\\{sign}")
    return text


def _one_line(text: str) -> str:
    return _plain(" ".join(text.split()))


def long_results(talk: Talk, structured: Mapping[str, Any], markdown: str) -> bytes:
    """The part of the results that is in a file; what is too long for an answer is left out."""
    slides = "\n\n".join(slide.text.strip() for slide in talk.slides if slide.text.strip())
    texts = {
        "markdown_content": markdown,
        "web_text": talk.page_text or None,
        "video_transcript": talk.words.text if talk.words else None,
        "attachments_text": slides or None,
    }
    room = MAX_RESULTS_BYTES
    told: dict[str, Any] = {"structured_data": dict(structured)}
    for name, text in texts.items():
        if text is None or len(text) > room:
            continue
        room -= len(text)
        told[name] = text
    return encode_json(told)


def write_files(directory: Path, paths: SessionPaths, talk: Talk, markdown: str) -> list[str]:
    """The tree of the session; the names of its assets."""
    document, assets = directory / paths.document, directory / paths.assets
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text(markdown, encoding="utf-8", errors="replace")
    pictures = [slide.picture for slide in talk.slides if slide.picture is not None]
    words = [talk.words.directory / name for name in Transcribed.FILES] if talk.words else []
    for path in (*pictures, *words):
        assets.mkdir(parents=True, exist_ok=True)
        _link(path, assets / path.name)
    return [f"{paths.assets}/{path.name}" for path in (*pictures, *words)]


def publish(directory: Path, root: Path) -> None:
    """The same tree below `root`, where those of all talks come together. What was there under
    the same name is replaced, file by file."""
    for path in directory.rglob("*"):
        target = root / path.relative_to(directory)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            # A name of its own: translations of a talk share files, and may come at the same time.
            unfinished = target.with_name(f".{uuid4().hex}")
            try:
                _link(path, unfinished)
                os.replace(unfinished, target)
            finally:
                unfinished.unlink(missing_ok=True)


def _link(path: Path, target: Path) -> None:
    """A link where that goes: scratch is removed, what is linked stays."""
    try:
        os.link(path, target)
    except OSError:  # another disk, or one without links
        shutil.copyfile(path, target)
