"""Bounded downloads."""

import asyncio
import re
import secrets
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

import httpx

from ..config import MEBIBYTE, DownloadLimits
from ..core.errors import DownloadFailed, DownloadRefused, FileTooLarge, UnexpectedContentType
from ..core.file_types import downloaded_name
from ..core.http_headers import read_retry_after
from .client import Network

PIECE = MEBIBYTE
REDIRECTS = frozenset({301, 302, 303, 307, 308})
#: Apart from 5xx; any other status would come again.
PASSING = frozenset({202, 408, 425, 429})
LASTING = frozenset({501, 505})
#: A server may ask for patience, but not for ever.
LONGEST_RETRY_AFTER = timedelta(hours=1)
MEDIA_TYPE = re.compile(r"[\w!#$&+^.-]+/[\w!#$&+^.-]+")

#: What is not compressed cannot grow on our side.
ASKING = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "secretary"}

#: Gets the bytes so far, and how many there will be where that is known.
OnProgress = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True)
class Download:
    path: Path
    size: int
    content_type: str | None
    file_name: str
    final_url: str


async def download(
    network: Network,
    url: str,
    target: Path,
    *,
    limits: DownloadLimits,
    on_progress: OnProgress | None = None,
    unwanted: frozenset[str] = frozenset(),
) -> Download:
    """
    Fetch `url` into the file `target`, which appears when it is complete and not before. What is
    announced as of one of the `unwanted` kinds is not fetched, and ends as KindRefused.
    """
    network.check(url)
    seconds = limits.total.total_seconds()
    limit = asyncio.timeout(seconds)
    host = httpx.URL(url).host
    try:
        async with limit, _answer(network, url, limits) as answer:
            _require_success(answer)
            _require_kind(answer, unwanted)
            size = await _save(answer, target, limits.max_bytes, on_progress)
    except TimeoutError:
        if not limit.expired():
            raise
        text = f"The download from {host} took longer than {seconds:g} s"
        raise DownloadFailed(text, host=host) from None
    content_type = _content_type(answer)
    return Download(
        path=target,
        size=size,
        content_type=content_type,
        file_name=downloaded_name(
            answer.headers.get("content-disposition"), answer.url.raw_path.decode(), content_type
        ),
        final_url=str(answer.url),
    )


@asynccontextmanager
async def _answer(
    network: Network, url: str, limits: DownloadLimits
) -> AsyncIterator[httpx.Response]:
    """The answer at the end of all redirects, its body still to be read."""
    timeout = httpx.Timeout(limits.idle.total_seconds(), connect=10)
    async with network.client(timeout=timeout) as client:
        client.cookies = httpx.Cookies()  # some servers redirect until theirs comes back
        request = client.build_request("GET", url, headers=ASKING)
        for _ in range(limits.max_redirects + 1):
            with _as_failures(request.url.host):
                answer = await client.send(request, stream=True)
            try:
                if answer.status_code not in REDIRECTS:
                    with _as_failures(request.url.host):
                        yield answer
                    return
                target = _next(answer)
            finally:
                await answer.aclose()
            network.check(target)
            request = client.build_request("GET", target, headers=ASKING)
    text = f"{request.url.host} redirects more than {limits.max_redirects} times"
    raise DownloadRefused(text, host=request.url.host)


def _next(answer: httpx.Response) -> httpx.URL:
    host, status = answer.url.host, answer.status_code
    if answer.next_request is None:
        text = f"{host} redirects to nowhere"
        raise DownloadRefused(text, host=host, status=status)
    target = answer.next_request.url
    if answer.url.scheme == "https" and target.scheme == "http":
        text = f"{host} redirects from https to http"
        raise DownloadRefused(text, host=host, status=status)
    return target


def _require_success(answer: httpx.Response) -> None:
    status, host = answer.status_code, answer.url.host
    if status in (200, 203):
        return
    text = f"{host} answered {status} {httpx.codes.get_reason_phrase(status)}".rstrip()
    if status in PASSING or (status >= 500 and status not in LASTING):
        failure = DownloadFailed(text, host=host, status=status)
        wait = read_retry_after(answer.headers.get("retry-after"), datetime.now(UTC))
        failure.retry_after = wait and min(wait, LONGEST_RETRY_AFTER)
        raise failure
    raise DownloadRefused(text, host=host, status=status)


@contextmanager
def _as_failures(host: str) -> Iterator[None]:
    """What goes wrong on the way, as errors of the job."""
    try:
        yield
    except httpx.TimeoutException:
        raise DownloadFailed(f"{host} does not answer in time", host=host) from None
    except httpx.ConnectError as error:
        if _is_certificate_error(error):
            text = f"{host} has no valid certificate"
            raise DownloadRefused(text, host=host) from None
        raise DownloadFailed(f"{host} cannot be reached", host=host) from None
    except httpx.LocalProtocolError:
        raise DownloadRefused(f"{host} cannot be asked for this", host=host) from None
    except httpx.TransportError:
        raise DownloadFailed(f"The connection to {host} broke", host=host) from None


def _is_certificate_error(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def _content_type(answer: httpx.Response) -> str | None:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind if MEDIA_TYPE.fullmatch(kind) else None


def _require_kind(answer: httpx.Response, unwanted: frozenset[str]) -> None:
    kind, host = _content_type(answer), answer.url.host
    if kind in unwanted:
        text = f"What {host} sends is of the kind {kind}"
        raise UnexpectedContentType(text, host=host, content_type=kind)


async def _save(
    answer: httpx.Response, target: Path, max_bytes: int, on_progress: OnProgress | None
) -> int:
    """Write the body to `target`; its size."""
    announced = _announced(answer, max_bytes)
    size = 0
    with _new_file(target) as file:
        async for piece in _in_pieces(_decoded(answer)):
            size += len(piece)
            if size > max_bytes:
                raise _too_large(answer, max_bytes)
            # A cancelled write may go on in its thread; closing the file waits for it.
            await asyncio.to_thread(file.write, piece)
            if on_progress is not None:
                on_progress(size, announced)
    return size


@contextmanager
def _new_file(target: Path) -> Iterator[BinaryIO]:
    """A file that gets its name when all is written; otherwise nothing of it stays."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with partial.open("xb") as file:
            yield file
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _announced(answer: httpx.Response, max_bytes: int) -> int | None:
    """How many bytes there will be, if that is known and true."""
    text = answer.headers.get("content-length", "")
    if not text.isdigit():
        return None
    if int(text) > max_bytes:
        raise _too_large(answer, max_bytes)
    return None if "content-encoding" in answer.headers else int(text)


def _too_large(answer: httpx.Response, max_bytes: int) -> FileTooLarge:
    text = f"The file at {answer.url.host} is larger than {max_bytes / MEBIBYTE:g} MB"
    return FileTooLarge(text, host=answer.url.host, max_bytes=max_bytes)


async def _in_pieces(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in pieces that are worth a thread's while."""
    gathered = bytearray()
    async for part in parts:
        gathered += part
        if len(gathered) >= PIECE:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


async def _decoded(answer: httpx.Response) -> AsyncIterator[bytes]:
    """
    The body as it was before it was compressed. httpx would do that too, but a small part can
    become a thousand times as large, and once more for each further coding it names.
    """
    coding = answer.headers.get("content-encoding", "identity").strip().lower()
    if coding in ("", "identity"):
        async for part in answer.aiter_raw():
            yield part
    elif coding in ("gzip", "x-gzip"):
        async for part in _unzipped(answer):
            yield part
    else:
        text = f"{answer.url.host} sends the file in a coding that was not asked for"
        raise DownloadRefused(text, host=answer.url.host, coding=coding[:100])


async def _unzipped(answer: httpx.Response) -> AsyncIterator[bytes]:
    unzip = _gzip()
    try:
        async for part in answer.aiter_raw():
            while part:
                if unzip.eof:  # several files one after the other are one
                    unzip = _gzip()
                yield unzip.decompress(part, PIECE)
                part = unzip.unused_data if unzip.eof else unzip.unconsumed_tail
        yield unzip.flush()
    except zlib.error:
        text = f"{answer.url.host} sends a file that is not compressed as it says"
        raise DownloadFailed(text, host=answer.url.host) from None
    if not unzip.eof:
        raise DownloadFailed(f"The file at {answer.url.host} ends too soon", host=answer.url.host)


def _gzip() -> Any:
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
