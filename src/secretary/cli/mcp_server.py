"""The service as tools for language models, by the Model Context Protocol."""

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
    "Reads documents, pictures and recordings. Call `convert` with a file or URL, "
    "`job_status` until it has completed if that takes longer, then `read_result` for its text."
)
#: What one answer may have; a model can ask for the next pages.
MAX_CHARACTERS = 60_000
#: How long `convert` waits by itself: models' programs give a tool about a minute.
PATIENCE = 45.0

#: Names end so, by job type. The service looks at the content all the same.
SUFFIXES = {
    "pdf": "pdf",
    "office": "docx xlsx pptx odt ods odp epub rtf html htm txt md csv doc xls ppt",
    "imageocr": "png jpg jpeg gif webp tif tiff bmp heic jp2",
    "audio": "mp3 wav flac ogg oga opus m4a aac aiff amr wma",
    "video": "mp4 m4v mov webm mkv avi mpg mpeg flv wmv",
}


class Status(BaseModel):
    job_id: str
    job_type: str
    status: str
    percent: int
    message: str
    pages: int | None = Field(default=None, description="How many there are to read")
    error: str | None = None


class Text(BaseModel):
    text: str
    first_page: int
    last_page: int
    pages: int
    cut_off: bool = Field(description="The page is longer than an answer may be")


class Tools:
    """Files are read from below `roots` only: a model decides which, and may be misled."""

    def __init__(self, client: AsyncClient, roots: Sequence[Path]) -> None:
        self._client = client
        self._roots = [root.resolve() for root in roots]

    async def convert(
        self,
        source: Annotated[str, Field(description="The path of a file here, or a URL")],
        job_type: Annotated[
            str | None,
            Field(description="pdf, office, imageocr, audio or video; by its name if left out"),
        ] = None,
    ) -> Status:
        """Have a document, picture or recording read. If that takes longer than a minute, ask
        `job_status` for it; then `read_result` gives the text."""
        with _errors_told():
            kind = job_type or _kind_of(source)
            if "://" in source:
                job = await self._client.submit(kind, url=source)
            else:
                job = await self._client.submit(kind, file=self._allowed(source))
            try:
                await job.wait(timeout=PATIENCE)
            except WaitTimeout:
                await job.refresh()
            return _status(job)

    async def job_status(self, job_id: str) -> Status:
        """How far a job is, or how it ended."""
        with _errors_told():
            return _status(await self._client.job(job_id))

    async def read_result(
        self,
        job_id: str,
        first_page: Annotated[int, Field(ge=1)] = 1,
        last_page: Annotated[
            int | None, Field(ge=1, description="The last one if left out")
        ] = None,
    ) -> Text:
        """The text of a completed job, all of it or some pages; as many as fit into an answer."""
        with _errors_told():
            job = await self._client.job(job_id)
            if not job.ended:
                raise ToolError(f"The job is {job.status}; ask `job_status` until it has completed")
            pages = pages_of(await job.result())
            return _cut(pages, first_page, last_page)

    def _allowed(self, source: str) -> Path:
        path = Path(source).expanduser().resolve()
        if not any(path.is_relative_to(root) for root in self._roots):
            raise ToolError("Files are only read below: " + ", ".join(map(str, self._roots)))
        return path


def make_server(client: AsyncClient, roots: Sequence[Path]) -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer(
        "secretary", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    tools = Tools(client, roots)
    for tool in (tools.convert, tools.job_status, tools.read_result):
        server.tool()(tool)
    return server


async def serve(client: AsyncClient, roots: Sequence[Path]) -> None:
    """On standard input and output, until it ends."""
    async with client:
        await make_server(client, roots).run_stdio_async()


def pages_of(results: Results) -> list[str]:
    """The text of each page; what has no pages is one."""
    told = (results.metadata or {}).get("text_contents")
    if isinstance(told, list) and told:
        return [str(page.get("content", "")) for page in told if isinstance(page, dict)]
    spoken = results.transcription.text if results.transcription else None
    whole = results.markdown_content or results.extracted_text or spoken or results.text
    return [whole or ""]


def _cut(pages: list[str], first: int, last: int | None) -> Text:
    last = min(last or len(pages), len(pages))
    if not first <= last:
        raise ToolError(f"There are {len(pages)} pages")
    text, end = "", first
    for number in range(first, last + 1):
        part = pages[number - 1] if not text else f"\n\n{pages[number - 1]}"
        if text and len(text) + len(part) > MAX_CHARACTERS:
            break
        text, end = text + part, number
    cut_off = len(text) > MAX_CHARACTERS
    return Text(
        text=text[:MAX_CHARACTERS],
        first_page=first,
        last_page=end,
        pages=len(pages),
        cut_off=cut_off,
    )


def _status(job: AsyncJob) -> Status:
    progress, results = job.progress, job.document.results
    return Status(
        job_id=job.id,
        job_type=job.job_type,
        status=job.status,
        percent=progress.percent,
        message=progress.message or progress.step,
        pages=len(pages_of(Results.model_validate(results))) if results else None,
        error=f"{job.error.code}: {job.error.message}" if job.error else None,
    )


def _kind_of(source: str) -> str:
    path = urlsplit(source).path if "://" in source else source
    suffix = PurePosixPath(path).suffix.lower().removeprefix(".")
    for kind, suffixes in SUFFIXES.items():
        if suffix in suffixes.split():
            return kind
    raise ToolError("Its name does not tell what it is: say the job_type")


@contextmanager
def _errors_told() -> Iterator[None]:
    try:
        yield
    except JobFailed as error:
        raise ToolError(f"{error.code}: {error.message}") from None
    except ClientError as error:
        raise ToolError(str(error)) from None
    except OSError as error:
        raise ToolError(error.strerror or "The file cannot be read") from None
