"""From a picture to its text: straightened, its language found, read."""

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
from .preprocess import Sheet, examine, prepare, without_specks

#: What is read together where the language cannot be told, if installed.
USUAL_LANGUAGES = ("deu", "eng")
#: Pages of so few lines are read in the usual languages at once: to try some would take as long.
SHORT_PAGE = 12
#: Below this a page may stand on its head, or be something else than text.
POOR_CONFIDENCE = 65.0
#: From this on no other turn is tried.
GOOD_CONFIDENCE = 80.0
ENOUGH_LETTERS = 15
#: By how much another turn must be read better to be believed.
CLEARLY_BETTER = 12.0
#: Lines below are specks and drawings that were taken for letters.
NO_TEXT_CONFIDENCE = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OcrResult:
    #: Lines as they stand, an empty line between paragraphs.
    text: str
    #: Lines joined to paragraphs, with headings and lists where they can be told.
    markdown: str
    #: 0 to 100, the mean over all letters; 0 when there are none.
    confidence: float
    #: As the engine calls them, for instance `deu+eng`.
    languages: str
    #: Quarters of a turn, clockwise, that made the picture upright: 0, 90, 180 or 270.
    rotation: int = 0
    #: What was turned beside that, in degrees clockwise.
    skew: float = 0.0


def recognise(
    image: Image.Image, *, engine: OcrEngine, languages: str | None, dpi: int | None
) -> OcrResult:
    """A picture without any text gives an empty one: that is no error."""
    codes = "+".join(language_codes(languages or ""))
    grey = without_specks(image if image.mode == "L" else image.convert("L"))
    findings = examine(grey)
    if findings.is_blank:
        return _recognised([], codes, None)
    sheet = prepare(grey, findings, dpi)
    if codes:
        if findings.is_lying:
            sheet, _ = _upright(sheet, engine, codes)
        return _read_upright(sheet, engine, codes)
    if findings.line_count < SHORT_PAGE and not findings.is_lying:
        return _read_upright(sheet, engine, _usual(engine))
    sheet, sample = _upright(sheet, engine, _probe(engine))
    found = detect_language(sample, engine.languages())
    if found is None:
        return _read(sheet, engine, _usual(engine))
    reading = _read(sheet, engine, found)
    is_mixed = _languages_in(reading.text, engine) - {found}
    return _read(sheet, engine, _usual(engine, found)) if is_mixed else reading


def recognise_upright(image: Image.Image, *, engine: OcrEngine, languages: str | None) -> OcrResult:
    """For what cannot have slipped or be turned, such as a slide: nothing of that is tried."""
    codes = "+".join(language_codes(languages or "")) or _usual(engine)
    grey = image if image.mode == "L" else image.convert("L")
    findings = examine(grey)
    if findings.is_blank:
        return _recognised([], codes, None)
    level = replace(findings, is_lying=False, skew=0.0)
    return _read(prepare(grey, level, None), engine, codes)


def _read_upright(sheet: Sheet, engine: OcrEngine, languages: str) -> OcrResult:
    reading = _read(sheet, engine, languages)
    if reading.confidence >= POOR_CONFIDENCE:
        return reading
    other, _ = _upright(sheet, engine, languages)
    if other.rotation == sheet.rotation:
        return reading
    again = _read(other, engine, languages)
    return again if again.confidence > reading.confidence else reading


def _upright(sheet: Sheet, engine: OcrEngine, languages: str) -> tuple[Sheet, str]:
    """The sheet as a few of its lines can be read best, and what they say."""
    best, best_trust, text = sheet, -1.0, ""
    for degrees in (0, 180, 90, 270):
        turned = sheet.turned(degrees)
        lines = engine.read(turned.sample_image(), languages=languages, dpi=sheet.dpi)
        trust = _trust(lines)
        if trust > best_trust + (CLEARLY_BETTER if degrees else 0):
            best, best_trust, text = turned, trust, as_text(lines)
        if trust >= GOOD_CONFIDENCE:
            break
    return best, text


def _trust(lines: Sequence[OcrLine]) -> float:
    """The confidence, less of it where it rests on a few letters: `Wi` can be `!M`."""
    letters = sum(len(line.text) for line in lines)
    return _confidence(lines) * min(1.0, letters / ENOUGH_LETTERS)


def _read(sheet: Sheet, engine: OcrEngine, languages: str) -> OcrResult:
    lines = engine.read(sheet.image, languages=languages, dpi=sheet.dpi)
    return _recognised([line for line in lines if _is_text(line)], languages, sheet)


def _recognised(lines: Sequence[OcrLine], languages: str, sheet: Sheet | None) -> OcrResult:
    return OcrResult(
        text=as_text(lines),
        markdown=as_markdown(lines),
        confidence=round(_confidence(lines), 1),
        languages=languages,
        rotation=sheet.rotation if sheet else 0,
        skew=round(sheet.skew, 1) if sheet else 0.0,
    )


def _is_text(line: OcrLine) -> bool:
    has_letters = any(character.isalnum() for character in line.text)
    return line.confidence >= (NO_TEXT_CONFIDENCE if has_letters else POOR_CONFIDENCE)


def _confidence(lines: Sequence[OcrLine]) -> float:
    letters = sum(len(line.text) for line in lines)
    return sum(line.confidence * len(line.text) for line in lines) / letters if letters else 0.0


def _probe(engine: OcrEngine) -> str:
    """The one language whose data makes enough of any other to recognise it."""
    installed = engine.languages()
    return next((code for code in ("eng", "deu", *installed) if code in installed), "eng")


def _usual(engine: OcrEngine, *first: str) -> str:
    installed = engine.languages()
    usual = dict.fromkeys((*first, *USUAL_LANGUAGES))
    return "+".join(code for code in usual if code in installed) or _probe(engine)


def _languages_in(text: str, engine: OcrEngine) -> set[str]:
    found = (detect_language(part, engine.languages()) for part in text.split("\n\n"))
    return {code for code in found if code}


def ocr_page(task: PageTask, picture: Image.Image, *, dpi: int | None) -> PageReading:
    started = time.perf_counter()
    engine = open_engine(task.ocr_engine, task.ocr_data_directory)
    found = recognise(picture, engine=engine, languages=task.languages, dpi=dpi)
    facts: dict[str, Any] = {
        "ocr_language": found.languages,
        "ocr_confidence": round(found.confidence),
        "ocr_seconds": round(time.perf_counter() - started, 2),
    }
    if found.rotation:
        facts["rotated_by"] = found.rotation
    if found.skew:
        facts["skewed_by"] = round(found.skew, 1)
    return PageReading(text=found.text, markdown=found.markdown, facts=facts)


def inspect_image(path: str, max_pixels: int) -> DocumentInfo:
    """Check that an image can be decoded and count its pages."""
    return DocumentInfo(page_count=count_frames(path, max_pixels=max_pixels))


def process_image_pages(task: PageTask, numbers: Sequence[int]) -> list[PendingPage]:
    """Make these pages; those come back that a vision model has to read."""
    unfinished = []
    for number in numbers:
        picture = open_frame(task.path, number, max_pixels=task.max_pixels)
        readings = {}
        if task.method.ocr:
            pass  # it is heavy, and a preview needs none

            readings["ocr"] = ocr_page(task, picture, dpi=dpi_of(picture))
        pictures = save_page_images(task, number, picture)
        if task.method.llm:
            sent = save_model_image(task, number, picture)
            left = PendingPage(
                number=number, readings=readings, pictures=pictures, model_image=sent
            )
            unfinished.append(left)
        else:
            save_page(task, number, readings, pictures)
    return unfinished
