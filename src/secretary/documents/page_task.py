"""What is to be done with pages, and what a drawn page comes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any, Required, TypedDict

from .page_store import Page, PageStore

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionMethod:
    native: bool = False
    ocr: bool = False
    llm: bool = False
    preview: bool = False
    #: Per page: OCR only where the text layer is of no use.
    auto: bool = False


METHODS: dict[str, ExtractionMethod] = {
    "native": ExtractionMethod(native=True),
    "ocr": ExtractionMethod(ocr=True),
    "both": ExtractionMethod(native=True, ocr=True),
    "preview": ExtractionMethod(preview=True),
    "preview_and_native": ExtractionMethod(preview=True, native=True),
    "llm": ExtractionMethod(llm=True),
    "llm_and_native": ExtractionMethod(llm=True, native=True),
    "llm_and_ocr": ExtractionMethod(llm=True, ocr=True),
    "auto": ExtractionMethod(native=True, ocr=True, auto=True),
}
#: Other names for them.
METHOD_ALIASES = {"tesseract_ocr": "ocr"}
#: Of reading pictures: part of a cache key, changed when they are prepared or put together anew.
OCR_PIPELINE_VERSION = "1"


PREVIEW_SIDE = 640
IMAGE_SIDE = 4096
PREVIEW_QUALITY = 75
IMAGE_QUALITY = 85
#: Vision models see no more than this, whatever they are sent.
MODEL_SIDE = 2000


class DocumentInfo(TypedDict, total=False):
    """What is known about a document as a whole; stored as JSON with its cached pages."""

    page_count: Required[int]
    title: str
    author: str
    subject: str
    keywords: str
    language: str
    created_at: str
    modified_at: str
    #: The PDF was damaged; this is what could be recovered of it.
    is_mended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTask:
    """The same for all pages of a document; it travels to the process that makes them."""

    path: str
    password: str | None = None
    method: ExtractionMethod
    #: How the method is called in the results.
    method_name: str
    with_images: bool = False
    languages: str | None = None
    ocr_engine: str = "tesseract"
    ocr_data_directory: str | None = None
    max_pixels: int = 50_000_000
    page_store: PageStore
    #: For what is of no use when the pages are done.
    scratch: str
    #: Why a page is read in this way, where that was for us to decide.
    reasons: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReading:
    """The text of one page by one method."""

    text: str
    markdown: str
    #: Why it is of no use.
    fault: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPage:
    """A page that needs more than its process can give: a reading by OCR, which takes a call of
    its own, or by a vision model, which gets the picture."""

    number: int
    readings: Mapping[str, PageReading] = field(default_factory=dict)
    pictures: tuple[str, ...] = ()
    model_image: str | None = None
    reason: str | None = None


def save_page(
    task: PageTask, number: int, readings: Mapping[str, PageReading], pictures: Sequence[str]
) -> Page:
    """The page, kept. The readings come in the order of their worth."""
    texts = {name: reading.text for name, reading in readings.items()}
    found = [reading for reading in readings.values() if reading.text.strip()]
    best = next((reading for reading in found if not reading.fault), found[0] if found else None)
    facts: dict[str, Any] = {}
    for reading in readings.values():
        facts |= reading.facts
    page = Page(
        number=number,
        text=_joined(texts),
        markdown=best.markdown if best else "",
        method=task.method_name if len(readings) != 1 else next(iter(readings)),
        reason=task.reasons.get(number),
        texts=texts if len(texts) > 1 else {},
        pictures=tuple(pictures),
        facts=facts,
    )
    task.page_store.save(page)
    return page


def _joined(texts: Mapping[str, str]) -> str:
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "\n".join(f"--- {name} ---\n{text}\n" for name, text in texts.items())


def save_page_images(task: PageTask, number: int, picture: "Image") -> tuple[str, ...]:
    """The pictures that the method asks for: large ones, and small ones to look through."""
    names = []
    if task.with_images:
        names.append(_save(task.page_store, f"image_{number:03d}.jpg", picture, IMAGE_SIDE))
    if task.method.preview:
        names.append(_save(task.page_store, f"preview_{number:03d}.jpg", picture, PREVIEW_SIDE))
    return tuple(names)


def _save(page_store: PageStore, name: str, picture: "Image", side: int) -> str:
    quality = PREVIEW_QUALITY if side == PREVIEW_SIDE else IMAGE_QUALITY
    file = BytesIO()
    _save_jpeg(picture, file, max_side=side, quality=quality)
    page_store.write(name, file.getvalue())
    return name


def save_model_image(task: PageTask, number: int, picture: "Image") -> str:
    """The path of a picture that a vision model can read."""
    path = f"{task.scratch}/model_{number:03d}.jpg"
    _save_jpeg(picture, path, max_side=MODEL_SIDE, quality=IMAGE_QUALITY)
    return path


def _save_jpeg(picture: "Image", file: str | BytesIO, *, max_side: int, quality: int) -> None:
    # Loaded here: the worker knows the tasks too, and never draws.
    from .ocr.images import save_jpeg

    save_jpeg(picture, file, max_side=max_side, quality=quality)
