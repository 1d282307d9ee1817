"""The pages of a document: how they are to be read, and the store of finished pages on disk."""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Required, TypedDict

import orjson

from ..core.files import atomic_write
from ..storage import append_log
from ..storage.append_log import RecordRef

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The text of one page. The page log stores the fields under their names."""

    #: Starts at 1.
    number: int
    #: Plain text in reading order.
    text: str
    #: The same text with headings, lists and tables, as far as they were detected.
    markdown: str
    #: How the text was extracted, for example `native`, `ocr` or `llm`.
    method: str = "native"
    #: Why this method was chosen, if it was chosen automatically.
    reason: str | None = None
    #: The text of each method, if several were used.
    texts: Mapping[str, str] = field(default_factory=dict)
    #: Names of the page's image files in the store.
    pictures: tuple[str, ...] = ()
    #: Further metadata, such as the OCR confidence.
    facts: Mapping[str, Any] = field(default_factory=dict)


_FIELDS = tuple(field.name for field in fields(Page))


def write_new(path: str | Path, content: bytes) -> None:
    """Write a file, or replace it without writing into it: other jobs may have linked it."""
    try:
        with open(path, "xb") as file:
            file.write(content)
    except FileExistsError:
        with atomic_write(Path(path)) as temporary:
            temporary.write_bytes(content)


@dataclass(frozen=True, slots=True)
class PageStore:
    """Pages in `directory`, shared by all jobs for the same file, with links in `job_directory`
    to what one job may show. A file never changes once it has its name, because other jobs may
    have linked it."""

    directory: str
    job_directory: str
    #: Saved pages never claim to be older than this.
    made_after: float = 0.0

    def save(self, page: Page) -> None:
        """Write the record last: a page with a record is complete."""
        if page.text:
            self.write(page_text_file(page.number), page.text.encode("utf-8", "replace"))
        fields = {name: getattr(page, name) for name in _FIELDS}
        try:
            record = orjson.dumps(fields)
        except TypeError:  # a lone surrogate, which could not be decoded again
            record = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")
        append_log.append(self.directory, page.number, record, not_before=self.made_after)

    def write(self, name: str, content: bytes) -> None:
        write_new(f"{self.directory}/{name}", content)
        self.link(name)

    @contextmanager
    def atomic_write(self, name: str) -> Iterator[str]:
        """Yield a temporary path that is renamed to `name` on success."""
        with atomic_write(Path(self.directory, name)) as temporary:
            yield str(temporary)

    def link(self, name: str, link_name: str | None = None) -> None:
        """Link a stored file into the job's directory, replacing a file of that name."""
        source, target = f"{self.directory}/{name}", f"{self.job_directory}/{link_name or name}"
        try:
            os.link(source, target)
        except FileExistsError:
            os.unlink(target)
            self.link(name, link_name)
        except OSError:  # another file system, or one without hard links
            shutil.copyfile(source, target)

    def link_page(self, page: Page) -> None:
        """Link the files of a page that are not in the job's directory yet."""
        texts = (page_text_file(page.number),) if page.text else ()
        for name in (*page.pictures, *texts):
            if not os.path.exists(f"{self.job_directory}/{name}"):
                self.link(name)

    def find_pages(self, *, made_after: float = 0.0) -> dict[int, RecordRef]:
        """Return the latest version of each stored page, by page number."""
        return append_log.index(self.directory, made_after=made_after)


def link_pages(page_store: PageStore, refs: Iterable[RecordRef]) -> None:
    """Link the files of pages that an earlier job or attempt has stored."""
    for page in load_pages(refs):
        page_store.link_page(page)


def load_pages(refs: Iterable[RecordRef]) -> Iterator[Page]:
    for record in map(orjson.loads, append_log.read(refs)):
        yield Page(**{**record, "pictures": tuple(record["pictures"])})


def page_text_file(number: int) -> str:
    return f"page_{number:03d}.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionMethod:
    native: bool = False
    ocr: bool = False
    llm: bool = False
    preview: bool = False
    #: Decide per page: OCR only where the text layer is unusable.
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
METHOD_ALIASES = {"tesseract_ocr": "ocr"}
#: Part of the cache key: change it when preprocessing or layout of recognised text changes.
OCR_PIPELINE_VERSION = "1"

#: Longest side in pixels, and JPEG quality.
PREVIEW_SIDE, PREVIEW_QUALITY = 640, 75
IMAGE_SIDE, IMAGE_QUALITY = 4096, 85
#: Vision models scale larger images down anyway.
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
    """How to read the pages of one document; sent to the processes that read them."""

    path: str
    password: str | None = None
    method: ExtractionMethod
    #: The name of the method in the results.
    method_name: str
    with_images: bool = False
    languages: str | None = None
    ocr_engine: str = "tesseract"
    ocr_data_directory: str | None = None
    max_pixels: int
    page_store: PageStore
    #: Directory for files that are not needed once the pages are finished.
    scratch: str
    #: Why a page is read with this method, by page number, if it was chosen automatically.
    reasons: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReading:
    """The text of one page as extracted by one method."""

    text: str
    markdown: str
    #: Why the text is unusable, or None.
    fault: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPage:
    """A page that its process could not finish: it needs OCR, which runs in a separate call, or a
    vision model, which gets `model_image`."""

    number: int
    readings: Mapping[str, PageReading] = field(default_factory=dict)
    pictures: tuple[str, ...] = ()
    #: Path of the image to send to the model.
    model_image: str | None = None
    reason: str | None = None


def save_page(
    task: PageTask, number: int, readings: Mapping[str, PageReading], pictures: Sequence[str]
) -> Page:
    """Build a page from its readings, the preferred one first, and save it."""
    texts = {name: reading.text for name, reading in readings.items()}
    usable = [reading for reading in readings.values() if reading.text.strip()]
    best = next((reading for reading in usable if not reading.fault), usable[0] if usable else None)
    joined = "\n".join(f"--- {name} ---\n{text}\n" for name, text in texts.items())
    page = Page(
        number=number,
        text=next(iter(texts.values())) if len(texts) == 1 else joined,
        markdown=best.markdown if best else "",
        method=task.method_name if len(readings) != 1 else next(iter(readings)),
        reason=task.reasons.get(number),
        texts=texts if len(texts) > 1 else {},
        pictures=tuple(pictures),
        facts={key: fact for reading in readings.values() for key, fact in reading.facts.items()},
    )
    task.page_store.save(page)
    return page


def finish_page(
    task: PageTask, number: int, readings: Mapping[str, PageReading], image: "Image"
) -> PendingPage | None:
    """Save a page with its full-size image and preview, as the task requires. Return the page
    instead if a vision model has to read it."""
    from .ocr.images import save_jpeg  # the worker imports this module, but never renders images

    names = []
    for is_wanted, name, side, quality in (
        (task.with_images, f"image_{number:03d}.jpg", IMAGE_SIDE, IMAGE_QUALITY),
        (task.method.preview, f"preview_{number:03d}.jpg", PREVIEW_SIDE, PREVIEW_QUALITY),
    ):
        if is_wanted:
            file = BytesIO()
            save_jpeg(image, file, max_side=side, quality=quality)
            task.page_store.write(name, file.getvalue())
            names.append(name)
    if not task.method.llm:
        save_page(task, number, readings, names)
        return None
    path = f"{task.scratch}/model_{number:03d}.jpg"
    save_jpeg(image, path, max_side=MODEL_SIDE, quality=IMAGE_QUALITY)
    return PendingPage(number=number, readings=readings, pictures=tuple(names), model_image=path)
