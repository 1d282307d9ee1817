"""The files that jobs have made, for those who may read the job."""

import hashlib
import mimetypes
import re
from collections.abc import AsyncIterator, Mapping
from email.utils import formatdate
from pathlib import PurePath
from secrets import token_hex
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from ..core.errors import NotFound
from ..core.job import FINAL_STATUSES
from ..storage.artifacts import Found, JobFiles
from .auth import Caller
from .dependencies import job_service_of
from .envelope import success
from .errors import OLDER_ROUTES

Ranges = list[tuple[int, int]]


def is_known(etag: str, request: Request) -> bool:
    """Whether the client has this version. On the way an ETag can become a weak one, which here
    means the same."""
    header = request.headers.get("if-none-match", "")
    known = (part.strip().removeprefix("W/") for part in header.split(","))
    return header.strip() == "*" or etag in known


def validators(found: Found) -> dict[str, str]:
    """By which a client knows whether it has the file already."""
    assert found.kept is not None
    mark = hashlib.sha256(found.kept.tag.encode()).hexdigest()[:32]
    return {"ETag": f'"{mark}"', "Last-Modified": formatdate(found.made_at, usegmt=True)}


def sent_from_depot(
    files: JobFiles, found: Found, ranges: Ranges, *, kind: str, headers: Mapping[str, str]
) -> StreamingResponse:
    told = {**headers, "Accept-Ranges": "bytes"}
    if not ranges:
        told["Content-Length"] = str(found.size)
        return StreamingResponse(files.pieces(found), 200, told, kind)
    if len(ranges) == 1:
        start, end = ranges[0]
        told["Content-Range"] = f"bytes {start}-{end - 1}/{found.size}"
        told["Content-Length"] = str(end - start)
        return StreamingResponse(files.pieces(found, start, end), 206, told, kind)
    boundary = token_hex(13)
    parts = [(_heading(found, kind, boundary, one), one) for one in ranges]
    last = f"--{boundary}--".encode()
    size = sum(len(heading) + end - start + 2 for heading, (start, end) in parts) + len(last)
    told["Content-Length"] = str(size)

    async def body() -> AsyncIterator[bytes]:
        for heading, (start, end) in parts:
            yield heading
            async for piece in files.pieces(found, start, end):
                yield piece
            yield b"\r\n"
        yield last

    return StreamingResponse(body(), 206, told, f"multipart/byteranges; boundary={boundary}")


def _heading(found: Found, kind: str, boundary: str, part: tuple[int, int]) -> bytes:
    start, end = part
    lines = (
        f"--{boundary}",
        f"Content-Type: {kind}",
        f"Content-Range: bytes {start}-{end - 1}/{found.size}",
        "",
        "",
    )
    return "\r\n".join(lines).encode()


router = APIRouter(tags=["files"])

#: Given out as text inside JSON.
TEXT_KINDS = frozenset({".txt", ".md", ".json", ".srt", ".vtt", ".csv", ".html", ".xml", ".yaml"})
#: As large as a JSON answer may become; larger ones are files.
MAX_TEXT_BYTES = 16 * 1024 * 1024
#: What a browser may show by itself. Anything else, pages with scripts above all, is saved.
SHOWN = frozenset(
    {
        "application/pdf", "application/json", "text/plain", "text/markdown", "text/vtt",
        "text/csv", "image/png", "image/jpeg", "image/gif", "image/webp", "audio/mpeg",
        "audio/wav", "audio/x-wav", "audio/ogg", "audio/flac", "audio/aac", "audio/mp4",
        "audio/webm", "video/mp4", "video/webm",
    }
)  # fmt: skip
#: Where systems differ, or know nothing.
TYPES = {
    ".md": "text/markdown", ".vtt": "text/vtt", ".srt": "text/plain", ".webp": "image/webp",
    ".m4a": "audio/mp4", ".aac": "audio/aac", ".weba": "audio/webm", ".wav": "audio/wav",
    ".flac": "audio/flac", ".ogg": "audio/ogg",
}  # fmt: skip

#: Whoever asks for more parts at once gets the whole.
MOST_RANGES = 100
RANGE = re.compile(r"([0-9]{0,18})-([0-9]{0,18})")
ONE = r"\s*([0-9]{1,18}-[0-9]{0,18}|-[0-9]{1,18})\s*"
RANGES = re.compile(f"bytes={ONE}(,{ONE})*", re.IGNORECASE)


@router.get("/api/pdf/text-content/{path:path}")
async def page_text(request: Request, path: str, user: Caller) -> JSONResponse:
    """The text of a page."""
    return await _text(request, path, user, frozenset({".txt"}))


@router.get("/api/files/text/{path:path}")
async def file_text(request: Request, path: str, user: Caller) -> JSONResponse:
    """A text file, inside JSON."""
    return await _text(request, path, user, TEXT_KINDS)


@router.get(f"{OLDER_ROUTES}/files/{{path:path}}", name="get_event_job_file")
@router.get("/api/files/{path:path}")
async def get_file(request: Request, path: str, user: Caller) -> Response:
    """A file, whole or in ranges."""
    return _sent(request, await _located(request, path, user))


@router.get(f"{OLDER_ROUTES}/jobs/{{job_id}}/download-archive", name="download_event_job_archive")
@router.get("/api/jobs/{job_id}/download-archive")
async def download_archive(request: Request, job_id: str, user: Caller) -> Response:
    """The ZIP with everything a job made."""
    job_service = job_service_of(request)
    job = await job_service.get_without_results(job_id, user=user)
    if job.status not in FINAL_STATUSES:
        return JSONResponse({"status": "processing", "job_id": job_id}, 202, {"Retry-After": "5"})
    return _sent(request, await job_service.files.archive(job), saved=True)


@router.get("/api/jobs/{job_id}/files")
async def list_files(request: Request, job_id: str, user: Caller) -> JSONResponse:
    """The files that a job has made, also while it runs: a page is there as soon as it is done."""
    job_service = job_service_of(request)
    job = await job_service.get_without_results(job_id, user=user)
    made = await job_service.files.made_so_far(job)
    files = [
        {"name": name, "url": f"/api/files/{job_id}/{quote(name)}", "size": size}
        for name, size in made
    ]
    return success(request, "files", {"attempt": job.attempt, "files": files}, process_id=job_id)


async def _located(request: Request, path: str, user: str | None) -> Found:
    """`<job_id>/<name>`, for clients that like it also with `jobs/` before it."""
    job_service = job_service_of(request)
    job_id, _, name = path.removeprefix("jobs/").partition("/")
    job = await job_service.get_without_results(job_id, user=user)
    return await job_service.files.find(job, name)


async def _text(
    request: Request, path: str, user: str | None, kinds: frozenset[str]
) -> JSONResponse:
    found = await _located(request, path, user)
    if PurePath(found.name).suffix.lower() not in kinds or found.size > MAX_TEXT_BYTES:
        raise NotFound("There is no such text")
    content = await job_service_of(request).files.content(found)
    return JSONResponse({"file_path": path, "content": content.decode("utf-8", "replace")})


def _sent(request: Request, found: Found, *, saved: bool = False) -> Response:
    suffix = PurePath(found.name).suffix.lower()
    kind = TYPES.get(suffix) or mimetypes.guess_type(found.name)[0] or "application/octet-stream"
    disposition = "inline" if kind in SHOWN and not saved else "attachment"
    headers = {
        "Cache-Control": "private, no-cache",  # ask each time whether it is still the same
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    here: FileResponse | None = None
    if found.path is not None:
        here = FileResponse(
            found.path,
            media_type=kind,
            filename=found.name,
            stat_result=found.path.stat(),
            content_disposition_type=disposition,
            headers=headers,
        )
        etag, changed = here.headers["etag"], here.headers["last-modified"]
    else:
        headers |= validators(found)
        etag, changed = headers["ETag"], headers["Last-Modified"]
    if is_known(etag, request):
        return Response(status_code=304, headers={**headers, "ETag": etag})
    # A client that has a part of another version gets this one whole.
    is_same = request.headers.get("if-range", etag) in (etag, changed)
    ranges = _ranges(request.headers.get("range"), found.size) if is_same else []
    if here is not None:
        return here
    headers["Content-Disposition"] = f"{disposition}; {_named(found.name)}"
    files = job_service_of(request).files
    return sent_from_depot(files, found, ranges, kind=kind, headers=headers)


def _named(name: str) -> str:
    quoted = quote(name)
    return f'filename="{name}"' if quoted == name else f"filename*=utf-8''{quoted}"


def _ranges(header: str | None, size: int) -> Ranges:
    """Which bytes are asked for, from and to before; none for all. The framework would refuse in
    a form of its own."""
    if header is None:
        return []
    if RANGES.fullmatch(header.strip()) is None:
        raise HTTPException(400, "The Range header cannot be read")
    found: Ranges = []
    for first, last in RANGE.findall(header):
        start = int(first) if first else max(size - int(last), 0)
        if start >= size or (first and last and int(last) < start):
            headers = {"Content-Range": f"bytes */{size}"}
            raise HTTPException(416, f"The file has {size:,} bytes", headers)
        found.append((start, min(int(last) + 1, size) if first and last else size))
    # Nor is more sent than the file has: the same range a hundred times is an attack.
    asked = sum(end - start for start, end in found)
    return found if len(found) <= MOST_RANGES and asked <= size else []
