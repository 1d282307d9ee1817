"""Recognises the text of an image: preprocessing, language detection and OCR."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from PIL import Image

from ...core.languages import detect_language, language_codes
from ..page_task import (
    DocumentInfo,
    PageReading,
    PageTask,
    PendingPage,
    save_model_image,
    save_page,
    save_page_images,
)
from .engines import OcrEngine, OcrLine, open_engine
from .images import count_frames, dpi_of, open_frame
from .paragraphs import as_markdown, as_text
from .preprocess import PreparedImage, analyse, despeckle, prepare

#: Used together if the language cannot be detected, as far as installed.
USUAL_LANGUAGES = ("deu", "eng")
#: Pages with fewer lines skip language detection, which would take as long as reading them.
SHORT_PAGE = 12
#: Below this confidence a page may be upside down, or contain no text.
POOR_CONFIDENCE = 65.0
#: From this confidence on no other rotation is tried.
GOOD_CONFIDENCE = 80.0
CONVINCING_LETTERS = 15
#: How much better another rotation must score to be chosen.
ROTATION_MARGIN = 12.0
#: Lines below are specks and drawings mistaken for letters.
NO_TEXT_CONFIDENCE = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OcrResult:
    #: Lines as printed, with an empty line between paragraphs.
    text: str
    #: Lines joined to paragraphs, with headings, lists and tables as far as detected.
    markdown: str
    #: 0 to 100, the mean over all letters; 0 if there are none.
    confidence: float
    #: Engine language codes, such as `deu+eng`.
    languages: str
    #: Degrees clockwise that turned the image upright: 0, 90, 180 or 270.
    rotation: int = 0
    #: Degrees clockwise of additional deskewing.
    skew: float = 0.0


def inspect_image(path: str, max_pixels: int) -> DocumentInfo:
    """Check that an image can be decoded and count its pages."""
    return DocumentInfo(page_count=count_frames(path, max_pixels=max_pixels))


def process_image_pages(task: PageTask, numbers: Sequence[int]) -> list[PendingPage]:
    """Process these pages and return those that a vision model has to read."""
    pending = []
    for number in numbers:
        picture = open_frame(task.path, number, max_pixels=task.max_pixels)
        readings = {}
        if task.method.ocr:
            readings["ocr"] = ocr_page(task, picture, dpi=dpi_of(picture))
        pictures = save_page_images(task, number, picture)
        if task.method.llm:
            model_image = save_model_image(task, number, picture)
            page = PendingPage(
                number=number, readings=readings, pictures=pictures, model_image=model_image
            )
            pending.append(page)
        else:
            save_page(task, number, readings, pictures)
    return pending


def ocr_page(task: PageTask, picture: Image.Image, *, dpi: int | None) -> PageReading:
    """Read one page by OCR."""
    started = time.perf_counter()
    engine = open_engine(task.ocr_engine, task.ocr_data_directory)
    result = recognise(picture, engine=engine, languages=task.languages, dpi=dpi)
    facts: dict[str, Any] = {
        "ocr_language": result.languages,
        "ocr_confidence": round(result.confidence),
        "ocr_seconds": round(time.perf_counter() - started, 2),
    }
    if result.rotation:
        facts["rotated_by"] = result.rotation
    if result.skew:
        facts["skewed_by"] = round(result.skew, 1)
    return PageReading(text=result.text, markdown=result.markdown, facts=facts)


def recognise(
    image: Image.Image, *, engine: OcrEngine, languages: str | None, dpi: int | None
) -> OcrResult:
    """Recognise the text of an image. An image without text gives an empty result."""
    codes = "+".join(language_codes(languages or ""))
    grey = despeckle(image if image.mode == "L" else image.convert("L"))
    analysis = analyse(grey)
    if analysis.is_blank:
        return _result([], codes, None)
    prepared = prepare(grey, analysis, dpi)
    if codes:
        if analysis.is_sideways:
            prepared, _ = _find_rotation(prepared, engine, codes)
        return _read_any_rotation(prepared, engine, codes)
    if analysis.line_count < SHORT_PAGE and not analysis.is_sideways:
        return _read_any_rotation(prepared, engine, _default_languages(engine))
    prepared, sample = _find_rotation(prepared, engine, _probe_language(engine))
    language = detect_language(sample, engine.languages())
    if language is None:
        return _read(prepared, engine, _default_languages(engine))
    reading = _read(prepared, engine, language)
    is_mixed = _languages_in(reading.text, engine) - {language}
    return _read(prepared, engine, _default_languages(engine, language)) if is_mixed else reading


def recognise_upright(image: Image.Image, *, engine: OcrEngine, languages: str | None) -> OcrResult:
    """Recognise an image that cannot be skewed or turned, such as a slide."""
    codes = "+".join(language_codes(languages or "")) or _default_languages(engine)
    grey = image if image.mode == "L" else image.convert("L")
    analysis = analyse(grey)
    if analysis.is_blank:
        return _result([], codes, None)
    upright = replace(analysis, is_sideways=False, skew=0.0)
    return _read(prepare(grey, upright, None), engine, codes)


def _read_any_rotation(prepared: PreparedImage, engine: OcrEngine, languages: str) -> OcrResult:
    reading = _read(prepared, engine, languages)
    if reading.confidence >= POOR_CONFIDENCE:
        return reading
    other, _ = _find_rotation(prepared, engine, languages)
    if other.rotation == prepared.rotation:
        return reading
    second_reading = _read(other, engine, languages)
    return second_reading if second_reading.confidence > reading.confidence else reading


def _find_rotation(
    prepared: PreparedImage, engine: OcrEngine, languages: str
) -> tuple[PreparedImage, str]:
    """Return the orientation in which a few lines are read best, and their text."""
    best, best_score, text = prepared, -1.0, ""
    for degrees in (0, 180, 90, 270):
        rotated = prepared.rotated(degrees)
        lines = engine.read(rotated.sample_image(), languages=languages, dpi=prepared.dpi)
        score = _weighted_confidence(lines)
        if score > best_score + (ROTATION_MARGIN if degrees else 0):
            best, best_score, text = rotated, score, as_text(lines)
        if score >= GOOD_CONFIDENCE:
            break
    return best, text


def _weighted_confidence(lines: Sequence[OcrLine]) -> float:
    """Return the confidence, reduced if it rests on a few letters: `Wi` can be `!M`."""
    letters = sum(len(line.text) for line in lines)
    return _confidence(lines) * min(1.0, letters / CONVINCING_LETTERS)


def _read(prepared: PreparedImage, engine: OcrEngine, languages: str) -> OcrResult:
    lines = engine.read(prepared.image, languages=languages, dpi=prepared.dpi)
    return _result([line for line in lines if _is_text(line)], languages, prepared)


def _result(lines: Sequence[OcrLine], languages: str, prepared: PreparedImage | None) -> OcrResult:
    return OcrResult(
        text=as_text(lines),
        markdown=as_markdown(lines),
        confidence=round(_confidence(lines), 1),
        languages=languages,
        rotation=prepared.rotation if prepared else 0,
        skew=round(prepared.skew, 1) if prepared else 0.0,
    )


def _is_text(line: OcrLine) -> bool:
    has_letters = any(character.isalnum() for character in line.text)
    return line.confidence >= (NO_TEXT_CONFIDENCE if has_letters else POOR_CONFIDENCE)


def _confidence(lines: Sequence[OcrLine]) -> float:
    letters = sum(len(line.text) for line in lines)
    return sum(line.confidence * len(line.text) for line in lines) / letters if letters else 0.0


def _probe_language(engine: OcrEngine) -> str:
    """Return the language whose model reads any other well enough to detect it."""
    installed = engine.languages()
    return next((code for code in ("eng", "deu", *installed) if code in installed), "eng")


def _default_languages(engine: OcrEngine, *first: str) -> str:
    installed = engine.languages()
    languages = dict.fromkeys((*first, *USUAL_LANGUAGES))
    return "+".join(code for code in languages if code in installed) or _probe_language(engine)


def _languages_in(text: str, engine: OcrEngine) -> set[str]:
    languages = (detect_language(part, engine.languages()) for part in text.split("\n\n"))
    return {code for code in languages if code}
