"""Routes for the files that jobs produce, with conditional and range requests."""

import hashlib
import mimetypes
import re
from collections.abc import AsyncIterator
from email.utils import formatdate
from pathlib import PurePath
from secrets import token_hex
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import Path, Request
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from ..core.errors import InvalidParameters, NotFound
from ..core.job import FINAL_STATUSES
from ..storage.artifacts import ArtifactFile, JobFiles
from .auth import Caller
from .models import Envelope, Omitted, ResponseModel
from .openapi import Responses, header, make_router
from .requests import UUID, JobId, job_service_of
from .responses import LEGACY_PREFIX, JsonResponse, matches_etag, success

router = make_router("files", prefix="")

#: Returned as text inside JSON.
TEXT_SUFFIXES = frozenset(
    {".txt", ".md", ".json", ".srt", ".vtt", ".csv", ".html", ".xml", ".yaml"}
)
#: Larger texts are only available as files.
MAX_TEXT_BYTES = 16 * 1024 * 1024
#: Types a browser may display. Everything else, above all HTML, is downloaded.
INLINE_TYPES = frozenset(
    {
        "application/pdf", "application/json", "text/plain", "text/markdown", "text/vtt",
        "text/csv", "image/png", "image/jpeg", "image/gif", "image/webp", "audio/mpeg",
        "audio/wav", "audio/x-wav", "audio/ogg", "audio/flac", "audio/aac", "audio/mp4",
        "audio/webm", "video/mp4", "video/webm",
    }
)  # fmt: skip
#: Types that `mimetypes` does not know on every system.
MEDIA_TYPES = {
    ".md": "text/markdown", ".vtt": "text/vtt", ".srt": "text/plain", ".webp": "image/webp",
    ".m4a": "audio/mp4", ".aac": "audio/aac", ".weba": "audio/webm", ".wav": "audio/wav",
    ".flac": "audio/flac", ".ogg": "audio/ogg",
}  # fmt: skip

#: A request for more ranges gets the whole file.
MAX_RANGES = 100
RANGE = re.compile(r"([0-9]{0,18})-([0-9]{0,18})")
ONE_RANGE = r"\s*([0-9]{1,18}-[0-9]{0,18}|-[0-9]{1,18})\s*"
RANGES = re.compile(f"bytes={ONE_RANGE}(,{ONE_RANGE})*", re.IGNORECASE)
#: Start and end, exclusive.
Ranges = list[tuple[int, int]]

FilePath = Annotated[
    str,
    Path(
        description="The id of a job and the name of one of its files",
        json_schema_extra={"pattern": f"^(jobs/)?job-{UUID}/."},
    ),
]


class FileText(ResponseModel):
    file_path: str
    content: str


@router.get("/api/pdf/text-content/{path:path}", response_model=FileText)
async def page_text(request: Request, path: FilePath, user: Caller) -> Response:
    """Return the text of a page as JSON."""
    return await _text_response(request, path, user, frozenset({".txt"}))


@router.get("/api/files/text/{path:path}", response_model=FileText)
async def file_text(request: Request, path: FilePath, user: Caller) -> Response:
    """Return a text file as JSON."""
    return await _text_response(request, path, user, TEXT_SUFFIXES)


def _request_header(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": description, "schema": {"type": "string"}}


ETAG = {"ETag": header("Identifies this version of the file")}
RANGE_HEADERS = ETAG | {"Content-Range": header("The range that was sent", required=False)}
ANYTHING: Any = {"*/*": {"schema": {}}}
FILE_RESPONSES: Responses = {
    200: {"description": "The file", "content": ANYTHING, "headers": ETAG},
    206: {"description": "The requested ranges", "content": ANYTHING, "headers": RANGE_HEADERS},
    304: {"description": "The client has this version (`If-None-Match`)", "headers": ETAG},
}
FILE_ROUTE: Any = {
    "response_class": Response,
    "responses": FILE_RESPONSES,
    "openapi_extra": {
        "parameters": [
            _request_header("Range", "`bytes=0-999`: only these bytes"),
            _request_header("If-None-Match", "The `ETag` of the version the client has"),
            _request_header("If-Range", "The `ETag` of the version the client has a part of"),
        ]
    },
}


@router.get(f"{LEGACY_PREFIX}/files/{{path:path}}", **FILE_ROUTE, name="get_event_job_file")
@router.get("/api/files/{path:path}", **FILE_ROUTE)
async def get_file(request: Request, path: FilePath, user: Caller) -> Response:
    """Download a file, whole or in ranges."""
    return _file_response(request, await _find(request, path, user))


class Processing(ResponseModel):
    status: Literal["processing"]
    job_id: str
    message: str | Omitted = None


NOT_FINISHED = {
    "model": Processing,
    "description": "The job has not finished",
    "headers": {"Retry-After": header("Seconds to wait before polling again", kind="integer")},
}
ARCHIVE_ROUTE = FILE_ROUTE | {"responses": FILE_RESPONSES | {202: NOT_FINISHED}}


@router.get(
    f"{LEGACY_PREFIX}/jobs/{{job_id}}/download-archive",
    **ARCHIVE_ROUTE,
    name="download_event_job_archive",
)
@router.get("/api/jobs/{job_id}/download-archive", **ARCHIVE_ROUTE)
async def download_archive(request: Request, job_id: JobId, user: Caller) -> Response:
    """Download a ZIP of all files of a job."""
    job_service = job_service_of(request)
    job = await job_service.get_without_results(job_id, user=user)
    if job.status not in FINAL_STATUSES:
        return _not_finished(job_id)
    return _file_response(request, await job_service.files.archive(job), download=True)


@router.get("/api/office/jobs/{job_id}/markdown", **ARCHIVE_ROUTE)
async def download_markdown(request: Request, job_id: JobId, user: Caller) -> Response:
    """Download the Markdown of a job."""
    job_service = job_service_of(request)
    job = await job_service.get_without_results(job_id, user=user)
    if job.status not in FINAL_STATUSES:
        return _not_finished(job_id)
    name = (job.results or {}).get("markdown_file")
    if not name:
        raise NotFound(f"The job {job_id} has no Markdown")
    return _file_response(request, await job_service.files.find(job, str(name)), download=True)


def _not_finished(job_id: str) -> Response:
    body = {"status": "processing", "job_id": job_id, "message": "The job has not finished"}
    return JSONResponse(body, 202, {"Retry-After": "5"})


@router.get(
    "/api/pdf/jobs/{job_id}/mistral-ocr-raw",
    **ARCHIVE_ROUTE,
    summary="Download the pages of a PDF in the form of the Mistral OCR API",
)
async def mistral_ocr_raw(request: Request, job_id: JobId, user: Caller) -> Response:
    """JSON with the Markdown of each page, its size, and the images with their positions. The job
    was submitted to `/api/pdf/process-mistral-ocr`."""
    return await _pdf_file_response(request, job_id, user, "mistral_ocr_raw_file")


@router.get(
    "/api/pdf/jobs/{job_id}/mistral-ocr-images",
    **ARCHIVE_ROUTE,
    summary="Download the pictures on the pages of a PDF",
)
async def mistral_ocr_images(request: Request, job_id: JobId, user: Caller) -> Response:
    """A ZIP with the images that the Markdown refers to. The job was submitted to
    `/api/pdf/process-mistral-ocr`."""
    return await _pdf_file_response(request, job_id, user, "mistral_ocr_images_archive")


@router.get(
    "/api/pdf/jobs/{job_id}/download-pages-archive",
    **ARCHIVE_ROUTE,
    summary="Download images of the pages of a PDF",
)
async def download_pages_archive(request: Request, job_id: JobId, user: Caller) -> Response:
    """A ZIP with an image or a preview of each page, or both."""
    return await _pdf_file_response(request, job_id, user, "pages_archive")


async def _pdf_file_response(
    request: Request, job_id: str, user: str | None, field: str
) -> Response:
    """The file that the job's results name in this field."""
    job_service = job_service_of(request)
    job = await job_service.reporting_job(job_id, user=user)
    if job.status not in FINAL_STATUSES:
        return _not_finished(job_id)
    name = (job.results or {}).get(field)
    if not isinstance(name, str):
        raise InvalidParameters(f"The job {job_id} has no such file")
    return _file_response(request, await job_service.files.find(job, name), download=True)


class JobFile(ResponseModel):
    name: str
    url: str
    size: int


class JobFileList(ResponseModel):
    attempt: int
    files: list[JobFile]


@router.get("/api/jobs/{job_id}/files", response_model=Envelope[JobFileList])
async def list_files(request: Request, job_id: JobId, user: Caller) -> Response:
    """List the files of a job. Pages appear while the job is still running."""
    job_service = job_service_of(request)
    job = await job_service.get_without_results(job_id, user=user)
    files = [
        {"name": name, "url": f"/api/files/{job_id}/{quote(name)}", "size": size}
        for name, size in await job_service.files.list_artifacts(job)
    ]
    data = {"attempt": job.attempt, "files": files}
    return success(request, "files", data, process_id=job_id)


async def _find(request: Request, path: str, user: str | None) -> ArtifactFile:
    """Find `<job_id>/<name>`; some clients put `jobs/` before it."""
    job_service = job_service_of(request)
    job_id, _, name = path.removeprefix("jobs/").partition("/")
    job = await job_service.get_without_results(job_id, user=user)
    return await job_service.files.find(job, name)


async def _text_response(
    request: Request, path: str, user: str | None, suffixes: frozenset[str]
) -> Response:
    file = await _find(request, path, user)
    if PurePath(file.name).suffix.lower() not in suffixes or file.size > MAX_TEXT_BYTES:
        raise NotFound("There is no such text")
    content = await job_service_of(request).files.read(file)
    return JsonResponse({"file_path": path, "content": content.decode("utf-8", "replace")})


def _file_response(request: Request, file: ArtifactFile, *, download: bool = False) -> Response:
    suffix = PurePath(file.name).suffix.lower()
    media_type = (
        MEDIA_TYPES.get(suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    )
    disposition = "inline" if media_type in INLINE_TYPES and not download else "attachment"
    headers = {
        "Cache-Control": "private, no-cache",  # revalidate on each use
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    local: FileResponse | None = None
    if file.path is not None:
        local = FileResponse(
            file.path,
            media_type=media_type,
            filename=file.name,
            stat_result=file.path.stat(),
            content_disposition_type=disposition,
            headers=headers,
        )
        etag, modified = local.headers["etag"], local.headers["last-modified"]
    else:
        assert file.blob is not None
        etag = f'"{hashlib.sha256(file.blob.etag.encode()).hexdigest()[:32]}"'
        modified = formatdate(file.modified_at, usegmt=True)
        headers |= {"ETag": etag, "Last-Modified": modified}
    if matches_etag(etag, request):
        return Response(status_code=304, headers={**headers, "ETag": etag})
    # A client that has a part of another version gets the whole file.
    is_same_version = request.headers.get("if-range", etag) in (etag, modified)
    ranges = _read_ranges(request.headers.get("range"), file.size) if is_same_version else []
    if local is not None:
        return local
    quoted = quote(file.name)
    name = f'filename="{quoted}"' if quoted == file.name else f"filename*=utf-8''{quoted}"
    headers |= {"Content-Disposition": f"{disposition}; {name}", "Accept-Ranges": "bytes"}
    return _blob_response(job_service_of(request).files, file, ranges, media_type, headers)


def _read_ranges(value: str | None, size: int) -> Ranges:
    """The requested ranges; empty for the whole file. Not left to the framework, which has its own
    form of errors."""
    if value is None:
        return []
    if RANGES.fullmatch(value.strip()) is None:
        raise HTTPException(400, "The Range header is malformed")
    ranges: Ranges = []
    for first, last in RANGE.findall(value):
        start = int(first) if first else max(size - int(last), 0)
        if start >= size or (first and last and int(last) < start):
            headers = {"Content-Range": f"bytes */{size}"}
            raise HTTPException(416, f"The file has {size:,} bytes", headers)
        ranges.append((start, min(int(last) + 1, size) if first and last else size))
    # Never send more than the whole file: repeating one range many times is an attack.
    requested = sum(end - start for start, end in ranges)
    return ranges if len(ranges) <= MAX_RANGES and requested <= size else []


def _blob_response(
    files: JobFiles, file: ArtifactFile, ranges: Ranges, media_type: str, headers: dict[str, str]
) -> StreamingResponse:
    """Stream a file from the blob store."""
    if not ranges:
        headers["Content-Length"] = str(file.size)
        return StreamingResponse(files.stream(file), 200, headers, media_type)
    content_ranges = [f"bytes {start}-{end - 1}/{file.size}" for start, end in ranges]
    if len(ranges) == 1:
        start, end = ranges[0]
        headers |= {"Content-Range": content_ranges[0], "Content-Length": str(end - start)}
        return StreamingResponse(files.stream(file, start, end), 206, headers, media_type)
    boundary = token_hex(13)
    heads = [
        f"--{boundary}\r\nContent-Type: {media_type}\r\nContent-Range: {one}\r\n\r\n".encode()
        for one in content_ranges
    ]
    closing = f"--{boundary}--".encode()
    size = sum(map(len, heads)) + sum(end - start + 2 for start, end in ranges) + len(closing)
    headers["Content-Length"] = str(size)

    async def body() -> AsyncIterator[bytes]:
        for head, (start, end) in zip(heads, ranges, strict=True):
            yield head
            async for chunk in files.stream(file, start, end):
                yield chunk
            yield b"\r\n"
        yield closing

    return StreamingResponse(body(), 206, headers, f"multipart/byteranges; boundary={boundary}")
