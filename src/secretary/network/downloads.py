"""Downloads with limits on size, time and redirects."""

import asyncio
import re
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx

from ..core.errors import DownloadFailed, DownloadRefused, FileTooLarge, UnexpectedContentType
from ..core.files import atomic_write, downloaded_name
from ..core.http_headers import read_retry_after
from . import DownloadLimits
from .client import Network

MEBIBYTE = CHUNK_BYTES = 1024 * 1024
REDIRECTS = frozenset({301, 302, 303, 307, 308})
#: Status codes worth a retry, in addition to 5xx.
RETRYABLE = frozenset({202, 408, 425, 429})
#: 5xx codes that are not.
PERMANENT = frozenset({501, 505})
MAX_RETRY_AFTER = timedelta(hours=1)
MEDIA_TYPE = re.compile(r"[\w!#$&+^.-]+/[\w!#$&+^.-]+")

#: No compression: uncompressed data cannot expand on our side.
REQUEST_HEADERS = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "secretary"}

#: Called with the bytes received so far and the total, if known.
OnProgress = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True)
class Download:
    path: Path
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
    """Download `url` to the file `target`, which appears once it is complete. Responses with an
    `unwanted` content type are not read; they raise UnexpectedContentType."""
    network.check(url)
    async with (
        time_limit(limits, httpx.URL(url).host),
        _open_response(network, url, limits) as response,
    ):
        _require_success(response)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        content_type = kind if MEDIA_TYPE.fullmatch(kind) else None
        if content_type in unwanted:
            name = response.url.host
            text = f"{name} sends a file of the type {content_type}"
            raise UnexpectedContentType(text, host=name, content_type=content_type)
        await _save(response, target, limits.max_bytes, on_progress)
    disposition, path = response.headers.get("content-disposition"), response.url.raw_path.decode()
    name = downloaded_name(disposition, path, content_type)
    return Download(path=target, file_name=name, final_url=str(response.url))


@asynccontextmanager
async def time_limit(limits: DownloadLimits, host: str) -> AsyncIterator[None]:
    """Raise DownloadFailed if the download takes longer than allowed."""
    seconds = limits.total.total_seconds()
    timeout = asyncio.timeout(seconds)
    try:
        async with timeout:
            yield
    except TimeoutError:
        if not timeout.expired():
            raise
        text = f"The download from {host} took longer than {seconds:g} s"
        raise DownloadFailed(text, host=host) from None


@asynccontextmanager
async def _open_response(
    network: Network, url: str, limits: DownloadLimits
) -> AsyncIterator[httpx.Response]:
    """Follow redirects to the final response; its body is still to be read."""
    timeout = httpx.Timeout(limits.idle.total_seconds(), connect=10)
    async with network.client(timeout=timeout) as client:
        client.cookies = httpx.Cookies()  # some servers redirect until they get their cookie back
        request = client.build_request("GET", url, headers=REQUEST_HEADERS)
        for _ in range(limits.max_redirects + 1):
            with _as_download_errors(request.url.host):
                response = await client.send(request, stream=True)
            try:
                if response.status_code not in REDIRECTS:
                    with _as_download_errors(request.url.host):
                        yield response
                    return
                host, following = response.url.host, response.next_request
                details = {"host": host, "status": response.status_code}
                if following is None:
                    raise DownloadRefused(f"{host} redirects to no valid URL", **details)
                if response.url.scheme == "https" and following.url.scheme == "http":
                    raise DownloadRefused(f"{host} redirects from https to http", **details)
            finally:
                await response.aclose()
            network.check(following.url)
            request = client.build_request("GET", following.url, headers=REQUEST_HEADERS)
    text = f"{request.url.host} redirects more than {limits.max_redirects} times"
    raise DownloadRefused(text, host=request.url.host)


@contextmanager
def _as_download_errors(host: str) -> Iterator[None]:
    try:
        yield
    except httpx.TimeoutException:
        raise DownloadFailed(f"{host} did not respond in time", host=host) from None
    except httpx.ConnectError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            raise DownloadRefused(f"{host} has no valid certificate", host=host) from None
        raise DownloadFailed(f"{host} cannot be reached", host=host) from None
    except httpx.LocalProtocolError:
        raise DownloadRefused(f"The request to {host} is invalid", host=host) from None
    except httpx.TransportError:
        raise DownloadFailed(f"The connection to {host} failed", host=host) from None


def _require_success(response: httpx.Response) -> None:
    status, host = response.status_code, response.url.host
    if status in (200, 203):
        return
    text = f"{host} answered {status} {httpx.codes.get_reason_phrase(status)}".rstrip()
    if status in RETRYABLE or (status >= 500 and status not in PERMANENT):
        failure = DownloadFailed(text, host=host, status=status)
        wait = read_retry_after(response.headers.get("retry-after"), datetime.now(UTC))
        failure.retry_after = wait and min(wait, MAX_RETRY_AFTER)
        raise failure
    raise DownloadRefused(text, host=host, status=status)


async def _save(
    response: httpx.Response, target: Path, max_bytes: int, on_progress: OnProgress | None
) -> None:
    """Write the body to `target`."""
    host, length = response.url.host, response.headers.get("content-length", "")
    # Without a length, or with that of the compressed data, the size of the file is unknown.
    is_known = length.isdigit() and "content-encoding" not in response.headers
    too_large = FileTooLarge(
        f"The file at {host} is larger than {max_bytes / MEBIBYTE:g} MB",
        host=host,
        max_bytes=max_bytes,
    )
    if length.isdigit() and int(length) > max_bytes:
        raise too_large
    size = 0
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target) as temporary, temporary.open("xb") as file:
        async for chunk in _buffered(_decoded(response)):
            size += len(chunk)
            if size > max_bytes:
                raise too_large
            # A cancelled write may go on in its thread; closing the file waits for it.
            await asyncio.to_thread(file.write, chunk)
            if on_progress is not None:
                on_progress(size, int(length) if is_known else None)


async def _buffered(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Combine chunks until they are worth a thread call."""
    buffer = bytearray()
    async for chunk in chunks:
        buffer += chunk
        if len(buffer) >= CHUNK_BYTES:
            yield bytes(buffer)
            buffer.clear()
    if buffer:
        yield bytes(buffer)


def _decoded(response: httpx.Response) -> AsyncIterator[bytes]:
    """The decompressed body. httpx would decompress a chunk at once, which can become a thousand
    times as large, and again for each further encoding."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return response.aiter_raw()
    if encoding in ("gzip", "x-gzip"):
        return _gunzipped(response)
    text = f"{response.url.host} uses a content encoding that was not requested"
    raise DownloadRefused(text, host=response.url.host, coding=encoding[:100])


async def _gunzipped(response: httpx.Response) -> AsyncIterator[bytes]:
    host = response.url.host
    new_member = partial(zlib.decompressobj, wbits=16 + zlib.MAX_WBITS)
    member = new_member()
    try:
        async for chunk in response.aiter_raw():
            while chunk:
                if member.eof:  # a file may consist of several gzip members
                    member = new_member()
                yield member.decompress(chunk, CHUNK_BYTES)
                chunk = member.unused_data if member.eof else member.unconsumed_tail
        yield member.flush()
    except zlib.error:
        raise DownloadFailed(f"{host} sends invalid gzip data", host=host) from None
    if not member.eof:
        raise DownloadFailed(f"The file at {host} is truncated", host=host)
