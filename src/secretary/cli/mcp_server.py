"""An MCP server that offers the service to language models as tools."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from urllib.parse import urlsplit

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

from ..client import AsyncClient, AsyncJob, ClientError, JobFailed, Results, WaitTimeout
from ..version import __version__

INSTRUCTIONS = (
    "Converts documents, images and recordings to text. Call `convert` with a file or URL, "
    "poll `job_status` if it takes longer, then call `read_result` for the text."
)
#: Maximum length of a tool result; the model can request further pages.
MAX_CHARACTERS = 60_000
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
    error: str | None = None


class PageText(BaseModel):
    text: str
    first_page: int
    last_page: int
    pages: int
    cut_off: bool = Field(description="Whether the page was too long for one result")


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
    ) -> JobStatus:
        """Convert a document, image or recording to text. If the job has not finished yet, poll
        `job_status`; then call `read_result` for the text."""
        with _tool_errors():
            job_type = job_type or _job_type_for(source)
            if "://" in source:
                job = await self._client.submit(job_type, url=source)
            else:
                job = await self._client.submit(job_type, file=self._allowed(source))
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
    ) -> PageText:
        """Return the text of a completed job, or of a range of its pages, as far as it fits."""
        with _tool_errors():
            job = await self._client.job(job_id)
            if not job.ended:
                text = f"The job is {job.status}; poll `job_status` until it has completed"
                raise ToolError(text)
            pages = pages_of(await job.result())
        last_page = min(last_page or len(pages), len(pages))
        if first_page > last_page:
            raise ToolError(f"There are {len(pages)} pages")
        text, end = "", first_page
        for number, page in enumerate(pages[first_page - 1 : last_page], first_page):
            separator = "\n\n" if text else ""
            if text and len(text) + len(separator) + len(page) > MAX_CHARACTERS:
                break
            text, end = text + separator + page, number
        return PageText(
            text=text[:MAX_CHARACTERS],
            first_page=first_page,
            last_page=end,
            pages=len(pages),
            cut_off=len(text) > MAX_CHARACTERS,
        )


def make_server(client: AsyncClient, roots: Sequence[Path]) -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer(
        "secretary", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    tools = Tools(client, roots)
    for tool in (tools.convert, tools.job_status, tools.read_result):
        server.tool()(tool)
    return server


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
    progress, results = job.progress, job.document.results
    return JobStatus(
        job_id=job.id,
        job_type=job.job_type,
        status=job.status,
        percent=progress.percent,
        message=progress.message or progress.step,
        pages=len(pages_of(Results.model_validate(results))) if results else None,
        error=f"{job.error.code}: {job.error.message}" if job.error else None,
    )


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
