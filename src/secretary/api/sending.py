"""Sends files that the client may have already, or that are not on this machine."""

import hashlib
from collections.abc import AsyncIterator, Mapping
from email.utils import formatdate
from secrets import token_hex

from fastapi import Request
from fastapi.responses import StreamingResponse

from ..files import Found, JobFiles

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
