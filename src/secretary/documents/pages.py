"""The pages of a document: how they are to be read, and the store of finished pages on disk."""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Required

import orjson
from typing_extensions import TypedDict  # pydantic reads those of `typing` since Python 3.12 only

from ..core.files import atomic_write
from ..core.json_codec import clean_text
from ..storage import append_log
from ..storage.append_log import RecordRef

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture that is part of a page: its file in the store, and its box in pixels of the page
    from the top left."""

    file: str
    left: int = 0
    top: int = 0
    right: int = 0
    bottom: int = 0


@dataclass(frozen=True, slots=True)
class PageSize:
    """In pixels at this resolution."""

    width: int
    height: int
    dpi: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PageImages:
    """The image files of one page."""

    #: Renderings of the whole page.
    pictures: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    size: PageSize | None = None


NO_IMAGES = PageImages()


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
    #: The pictures the Markdown refers to, by the names of their files in the store.
    figures: tuple[Figure, ...] = ()
    #: None if it is not a page of a PDF.
    size: PageSize | None = None
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
        texts = {method: clean_text(text) for method, text in page.texts.items()}
        page = replace(
            page, text=clean_text(page.text), markdown=clean_text(page.markdown), texts=texts
        )
        if page.text:
            self.write(page_text_file(page.number), page.text.encode("utf-8", "replace"))
        fields = {name: getattr(page, name) for name in _FIELDS}
        try:
            record = orjson.dumps(fields)
        except TypeError:  # a lone surrogate, which could not be decoded again
            text = json.dumps(fields, ensure_ascii=False, default=asdict)
            record = text.encode("utf-8", "replace")
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
        record["pictures"] = tuple(record["pictures"])
        record["figures"] = tuple(Figure(**figure) for figure in record.get("figures", ()))
        record["size"] = PageSize(**record["size"]) if record.get("size") else None
        yield Page(**record)


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
    #: An endpoint with the Mistral OCR API reads the document.
    endpoint: bool = False


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
    "preview_and_ocr": ExtractionMethod(preview=True, ocr=True),
    "mistral_ocr": ExtractionMethod(endpoint=True),
}
METHOD_ALIASES = {"tesseract_ocr": "ocr"}
#: Part of the cache key: change it when preprocessing or layout of recognised text changes.
OCR_PIPELINE_VERSION = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """A JPEG of each page: `<prefix>001<suffix>` and so on."""

    prefix: str
    suffix: str = ".jpg"
    #: Longest side in pixels; None for the size at `dpi`.
    max_side: int | None = None
    quality: int
    #: At which a PDF is rendered before it is scaled down: enough to read on a screen.
    dpi: int = 150

    def file_name(self, number: int) -> str:
        return f"{self.prefix}{number:03d}{self.suffix}"


PREVIEW = Rendering(prefix="preview_", max_side=640, quality=75)
PAGE_IMAGE = Rendering(prefix="image_", max_side=1280, quality=85)
#: A picture of its own, upright.
WHOLE_PICTURE = Rendering(prefix="image_", max_side=4096, quality=85)
#: The two kinds of page images that the Mistral OCR route offers.
SMALL_PREVIEW = Rendering(prefix="preview_", max_side=360, quality=80)
HIGH_RESOLUTION = Rendering(prefix="page_", suffix=".jpeg", quality=85, dpi=200)

FIGURE_QUALITY = 85
#: Vision models scale larger images down anyway.
MODEL_SIDE, MODEL_QUALITY = 2000, 85


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
    #: Of a picture: width and height in pixels, its format, Pillow's mode, and its resolution.
    dimensions: list[int]
    format: str
    color_mode: str
    dpi: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTask:
    """How to read the pages of one document; sent to the processes that read them."""

    path: str
    password: str | None = None
    method: ExtractionMethod
    #: The name of the method in the results.
    method_name: str
    renderings: tuple[Rendering, ...] = ()
    #: Whether to extract the pictures on the pages, with references in the Markdown.
    with_figures: bool = False
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
    """A page that its process could not finish: it needs OCR, which runs in a separate call, a
    vision model, which gets `model_image`, or an OCR endpoint."""

    number: int
    readings: Mapping[str, PageReading] = field(default_factory=dict)
    images: PageImages = NO_IMAGES
    #: Path of the image to send to the model.
    model_image: str | None = None
    reason: str | None = None


def save_page(
    task: PageTask, number: int, readings: Mapping[str, PageReading], images: PageImages = NO_IMAGES
) -> Page:
    """Build a page from its readings, the preferred one first, and save it."""
    texts = {name: reading.text for name, reading in readings.items()}
    usable = [reading for reading in readings.values() if reading.text.strip()]
    best = next((reading for reading in usable if not reading.fault), usable[0] if usable else None)
    text = next(iter(texts.values()), "")
    if len(texts) > 1 and usable:
        text = "\n".join(f"--- {name} ---\n{text}\n" for name, text in texts.items())
    page = Page(
        number=number,
        text=text,
        markdown=_with_figures(best.markdown if best else "", images.figures),
        method=task.method_name if len(readings) != 1 else next(iter(readings)),
        reason=task.reasons.get(number),
        texts=texts if len(texts) > 1 else {},
        pictures=images.pictures,
        figures=images.figures,
        size=images.size,
        facts={key: fact for reading in readings.values() for key, fact in reading.facts.items()},
    )
    task.page_store.save(page)
    return page


def figure_markdown(file: str) -> str:
    return f"![{file}]({file})"


def _with_figures(markdown: str, figures: Sequence[Figure]) -> str:
    """Refer to the figures at the end of the page, unless their places in the text are known."""
    references = (figure_markdown(figure.file) for figure in figures)
    missing = [reference for reference in references if reference not in markdown]
    return "\n\n".join(filter(None, [markdown.rstrip("\n"), *missing])) if missing else markdown


def save_renderings(task: PageTask, number: int, image: "Image") -> tuple[str, ...]:
    """Save the images of the whole page that the task requires, and return their names."""
    from .ocr.images import save_jpeg  # the worker imports this module, but never renders images

    names = []
    for rendering in task.renderings:
        file = BytesIO()
        save_jpeg(image, file, max_side=rendering.max_side, quality=rendering.quality)
        names.append(rendering.file_name(number))
        task.page_store.write(names[-1], file.getvalue())
    return tuple(names)


def save_figure(page_store: PageStore, name: str, image: "Image") -> None:
    """Save a figure for the assembly, which gives it the name that clients see."""
    from .ocr.images import save_jpeg

    file = BytesIO()
    save_jpeg(image, file, quality=FIGURE_QUALITY)
    write_new(f"{page_store.directory}/{name}", file.getvalue())


def figure_file(number: int, index: int, suffix: str = ".jpeg") -> str:
    """The name in the store of a figure of this page."""
    return f"figure_{number:03d}_{index}{suffix}"


def finish_page(
    task: PageTask,
    number: int,
    readings: Mapping[str, PageReading],
    image: "Image",
    images: PageImages = NO_IMAGES,
) -> PendingPage | None:
    """Save a page with its renderings. Return the page instead if a model has to read it."""
    from .ocr.images import save_jpeg

    images = replace(images, pictures=save_renderings(task, number, image))
    if task.method.endpoint:
        return PendingPage(number=number, images=images)
    if not task.method.llm:
        save_page(task, number, readings, images)
        return None
    path = f"{task.scratch}/model_{number:03d}.jpg"
    save_jpeg(image, path, max_side=MODEL_SIDE, quality=MODEL_QUALITY)
    return PendingPage(number=number, readings=readings, images=images, model_image=path)
