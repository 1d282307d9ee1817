"""An MCP server that offers the service to language models: tools, and results as resources."""

import mimetypes
import re
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlsplit

from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp_types import Resource, ResourceTemplate
from pydantic import BaseModel, Field

from ..client import AsyncClient, AsyncJob, ClientError, JobFailed, Results, WaitTimeout
from ..version import __version__

INSTRUCTIONS = (
    "Converts documents, images and recordings to text. Call `convert` with a file or URL, "
    "poll `job_status` if it takes longer, then call `read_result` for the text. A long text comes "
    "in parts: continue as each part tells. Texts and pictures are resources, too."
)
#: Maximum length of a tool result; the model can request further pages.
MAX_CHARACTERS = 60_000
#: Results and pictures per result that are listed as resources.
MAX_LISTED_RESULTS = 20
MAX_LISTED_IMAGES = 50
MAX_IMAGE_BYTES = 20_000_000
TEXT_URI = "secretary://jobs/{job_id}/text"
IMAGE_URI = "secretary://jobs/{job_id}/images/{+name}"
RESOURCE = re.compile(r"secretary://jobs/(?P<job_id>[\w-]+)/(?:text|images/(?P<name>.+))")
#: How long `convert` waits for the job: most MCP clients time out after a minute.
WAIT_SECONDS = 45.0

#: File extensions by job type; the service checks the content as well.
SUFFIXES = {
    "pdf": "pdf",
    "office": "docx xlsx pptx odt ods odp epub rtf html htm txt md csv doc xls ppt",
    "imageocr": "png jpg jpeg gif webp tif tiff bmp heic jp2",
    "audio": "mp3 wav flac ogg oga opus m4a aac aiff amr wma",
    "video": "mp4 m4v mov webm mkv avi mpg mpeg flv wmv",
}


class JobStatus(BaseModel):
    job_id: str
    job_type: str
    status: str
    percent: int
    message: str
    pages: int | None = Field(default=None, description="Number of pages")
    characters: int | None = Field(default=None, description="Length of the text")
    text_uri: str | None = Field(default=None, description="Resource with the whole text")
    image_uris: list[str] = Field(default=[], description="Resources with the pictures")
    error: str | None = None


class TextPart(BaseModel):
    text: str
    first_page: int
    last_page: int
    pages: int
    next_page: int | None = Field(description="`first_page` of the next part; null at the end")
    next_offset: int | None = Field(description="`offset` of the next part; null at the end")
    next_step: str = Field(description="How to go on")


class Tools:
    """The tools. Only files below `roots` are read, because a prompt injection may pick them."""

    def __init__(self, client: AsyncClient, roots: Sequence[Path]) -> None:
        self._client = client
        self._roots = [root.resolve() for root in roots]

    async def convert(
        self,
        source: Annotated[str, Field(description="Path of a local file, or a URL")],
        job_type: Annotated[
            str | None,
            Field(description="pdf, office, imageocr, audio or video; default: by extension"),
        ] = None,
        extraction_method: Annotated[
            str,
            Field(
                description="For PDFs and images. auto: the text layer where it is good, else OCR."
                " native: only the text layer. ocr: always OCR. llm: a vision model"
            ),
        ] = "auto",
        language: Annotated[
            str | None, Field(description="Language of the source, such as de; default: detected")
        ] = None,
        first_page: Annotated[int | None, Field(ge=1, description="Of a PDF")] = None,
        last_page: Annotated[int | None, Field(ge=1, description="Of a PDF")] = None,
        images: Annotated[
            bool, Field(description="Also keep the pictures, or an image of each PDF page")
        ] = False,
    ) -> JobStatus:
        """Convert a document, image or recording to text. If the job has not finished yet, poll
        `job_status`; then call `read_result` for the text."""
        with _tool_errors():
            job_type = job_type or _job_type_for(source)
            options = {
                "extraction_method": extraction_method if extraction_method != "auto" else None,
                "language": language,
                "first_page": first_page,
                "last_page": last_page,
                "images": images or None,
            }
            name = PurePosixPath(urlsplit(source).path if "://" in source else source).name
            parameters = {"job_name": name[:500], **_parameters(job_type, options)}
            if "://" in source:
                job = await self._client.submit(job_type, url=source, **parameters)
            else:
                file = self._allowed(source)
                job = await self._client.submit(job_type, file=file, **parameters)
            try:
                await job.wait(timeout=WAIT_SECONDS)
            except WaitTimeout:
                await job.refresh()
            return _status(job)

    def _allowed(self, source: str) -> Path:
        path = Path(source).expanduser().resolve()
        if not any(path.is_relative_to(root) for root in self._roots):
            raise ToolError("Files are only read below: " + ", ".join(map(str, self._roots)))
        return path

    async def job_status(self, job_id: str) -> JobStatus:
        """Return the progress or the outcome of a job."""
        with _tool_errors():
            return _status(await self._client.job(job_id))

    async def read_result(
        self,
        job_id: str,
        first_page: Annotated[int, Field(ge=1)] = 1,
        last_page: Annotated[int | None, Field(ge=1, description="Default: the last page")] = None,
        offset: Annotated[int, Field(ge=0, description="Characters of the first page to skip")] = 0,
        limit: Annotated[
            int, Field(ge=1, le=MAX_CHARACTERS, description="Characters to return at most")
        ] = MAX_CHARACTERS,
    ) -> TextPart:
        """Return the text of a completed job, or of a range of its pages, as far as it fits. If
        `next_page` is set, call again with `next_page` and `next_offset`."""
        with _tool_errors():
            job = await self._client.job(job_id)
            if not job.ended:
                text = f"The job is {job.status}; poll `job_status` until it has completed"
                raise ToolError(text)
            pages = pages_of(await job.result())
        last_page = min(last_page or len(pages), len(pages))
        if first_page > last_page:
            raise ToolError(f"There are {len(pages)} pages")
        if offset > len(pages[first_page - 1]):
            size = len(pages[first_page - 1])
            raise ToolError(f"Page {first_page} has {size} characters")
        return _part(job_id, pages, first_page, last_page, offset, limit)


def _part(
    job_id: str, pages: Sequence[str], first_page: int, last_page: int, offset: int, limit: int
) -> TextPart:
    """Whole pages as far as they fit; only a page that is longer than the limit is divided."""
    text, end = pages[first_page - 1][offset : offset + limit], first_page
    next_page, next_offset = first_page, offset + len(text)
    if next_offset == len(pages[first_page - 1]):
        for number in range(first_page + 1, last_page + 1):
            if len(text) + len(pages[number - 1]) + 2 > limit:
                break
            text, end = f"{text}\n\n{pages[number - 1]}", number
        next_page, next_offset = end + 1, 0
    is_last = next_page > last_page
    last = f", last_page={last_page}" if last_page < len(pages) else ""
    call = f"read_result(job_id={job_id!r}, first_page={next_page}{last}, offset={next_offset})"
    return TextPart(
        text=text,
        first_page=first_page,
        last_page=end,
        pages=len(pages),
        next_page=None if is_last else next_page,
        next_offset=None if is_last else next_offset,
        next_step="This is the end" if is_last else f"Call {call} for the next part",
    )


class ResultServer(MCPServer[Any]):
    """Offers each result as a resource: its text, and its pictures."""

    def __init__(self, client: AsyncClient, roots: Sequence[Path]) -> None:
        super().__init__(
            "secretary", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
        )
        self._client = client
        tools = Tools(client, roots)
        for tool in (tools.convert, tools.job_status, tools.read_result):
            self.tool()(tool)

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        text = "The text of a completed job as Markdown"
        return [
            ResourceTemplate(
                uri_template=TEXT_URI, name="text", description=text, mime_type="text/markdown"
            ),
            ResourceTemplate(uri_template=IMAGE_URI, name="image", description="A picture of it"),
        ]

    async def list_resources(self) -> list[Resource]:
        """The latest results; all others can be read by their URIs."""
        resources: list[Resource] = []
        with _resource_errors():
            found = self._client.jobs(
                status="completed", include="results", page_size=MAX_LISTED_RESULTS
            )
            number = 0
            async with aclosing(found) as jobs:
                async for job in jobs:
                    resources += _resources(job)
                    number += 1
                    if number == MAX_LISTED_RESULTS:
                        break
        return resources

    async def read_resource(self, uri: Any, context: Any = None) -> list[ReadResourceContents]:
        match = RESOURCE.fullmatch(str(uri))
        if match is None:
            raise ResourceNotFoundError(f"There is no resource {uri}")
        with _resource_errors():
            job = await self._client.job(match["job_id"])
            if not job.ended:
                raise ResourceError(f"The job is {job.status}")
            results = await job.result()
            if match["name"] is None:
                text = "\n\n".join(pages_of(results))
                return [ReadResourceContents(content=text, mime_type="text/markdown")]
            name = unquote(match["name"])
            if name not in _images(job.id, results):  # not a path to something else
                raise ResourceNotFoundError(f"There is no resource {uri}")
            content = await job.read(name)
        if len(content) > MAX_IMAGE_BYTES:
            raise ResourceError(f"The picture has more than {MAX_IMAGE_BYTES:,} bytes")
        return [ReadResourceContents(content=content, mime_type=mimetypes.guess_type(name)[0])]


def make_server(client: AsyncClient, roots: Sequence[Path]) -> MCPServer[Any]:
    return ResultServer(client, roots)


async def serve(client: AsyncClient, roots: Sequence[Path]) -> None:
    """Serve on standard input and output until the client disconnects."""
    async with client:
        await make_server(client, roots).run_stdio_async()


def pages_of(results: Results) -> list[str]:
    """Return the text of each page; results without pages count as one page."""
    pages = (results.metadata or {}).get("text_contents")
    if isinstance(pages, list) and pages:
        return [str(page.get("content", "")) for page in pages if isinstance(page, dict)]
    transcript = results.transcription.text if results.transcription else None
    text = results.markdown_content or results.extracted_text or transcript or results.text
    return [text or ""]


def _status(job: AsyncJob) -> JobStatus:
    progress, document = job.progress, job.document.results
    status = JobStatus(
        job_id=job.id,
        job_type=job.job_type,
        status=job.status,
        percent=progress.percent,
        message=progress.message or progress.step,
        error=f"{job.error.code}: {job.error.message}" if job.error else None,
    )
    if not document:
        return status
    results = Results.model_validate(document)
    pages, images = pages_of(results), _images(job.id, results)[:MAX_LISTED_IMAGES]
    details = {
        "pages": len(pages),
        "characters": sum(map(len, pages)),
        "text_uri": _text_uri(job.id),
        "image_uris": [_image_uri(job.id, name) for name in images],
    }
    return status.model_copy(update=details)


def _resources(job: AsyncJob) -> Iterator[Resource]:
    name = job.label
    results = Results.model_validate(job.document.results or {})
    yield Resource(uri=_text_uri(job.id), name=name, mime_type="text/markdown")
    for image in _images(job.id, results)[:MAX_LISTED_IMAGES]:
        media_type, _ = mimetypes.guess_type(image)
        uri = _image_uri(job.id, image)
        yield Resource(uri=uri, name=f"{name}: {image}", mime_type=media_type)


def _images(job_id: str, results: Results) -> list[str]:
    """The names of the pictures among the files of a job, without previews of other pictures."""
    names = [unquote(path.removeprefix(f"/api/files/{job_id}/")) for path in results.assets]
    types = {name: mimetypes.guess_type(name)[0] or "" for name in names}
    images = [name for name, media_type in types.items() if media_type.startswith("image/")]
    previews = {name.replace("image_", "preview_", 1) for name in images if "image_" in name}
    return [name for name in images if name not in previews]


def _text_uri(job_id: str) -> str:
    return TEXT_URI.format(job_id=job_id)


def _image_uri(job_id: str, name: str) -> str:
    return f"secretary://jobs/{job_id}/images/{quote(name)}"


_DOCUMENT = {"language": "ocr_language", "images": "include_images"}
#: The parameters that each job type has for the options of `convert`.
OPTIONS = {
    "pdf": _DOCUMENT
    | {
        "extraction_method": "extraction_method",
        "first_page": "page_start",
        "last_page": "page_end",
    },
    "imageocr": _DOCUMENT | {"extraction_method": "extraction_method"},
    "office": {"language": "source_language", "images": "include_images"},
    "audio": {"language": "source_language"},
    "video": {"language": "source_language", "images": "include_frames"},
}


def _parameters(job_type: str, options: dict[str, Any]) -> dict[str, Any]:
    """Refuse options that would have no effect. A PDF is read by `auto` unless another method is
    requested."""
    given = {name: value for name, value in options.items() if value is not None}
    names = OPTIONS.get(job_type, {})
    if unknown := given.keys() - names:
        raise ToolError(f"{', '.join(sorted(unknown))}: does not apply to {job_type}")
    parameters = {names[name]: value for name, value in given.items()}
    return {"extraction_method": "auto", **parameters} if job_type == "pdf" else parameters


def _job_type_for(source: str) -> str:
    path = urlsplit(source).path if "://" in source else source
    suffix = PurePosixPath(path).suffix.lower().removeprefix(".")
    for job_type, suffixes in SUFFIXES.items():
        if suffix in suffixes.split():
            return job_type
    raise ToolError("Unknown file extension: pass the job_type")


@contextmanager
def _tool_errors() -> Iterator[None]:
    try:
        yield
    except JobFailed as error:
        raise ToolError(f"{error.code}: {error.message}") from None
    except ClientError as error:
        raise ToolError(str(error)) from None
    except OSError as error:
        raise ToolError(error.strerror or "Could not read the file") from None


@contextmanager
def _resource_errors() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise ResourceError(str(error)) from None
