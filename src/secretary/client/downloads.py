"""Files of a job on their way here: whole or not at all, and resumed where they broke off."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import quote, unquote

import httpx

from .connection import Connection, give_up, retry_after_of, worth_another
from .errors import ApiError

#: Routes that give a text inside JSON; here the file itself is wanted.
IN_JSON = ("/api/pdf/text-content/", "/api/files/text/")


def path_of(job_id: str, name: str) -> str:
    """`frame_001.jpg`, or a path of the API as results have it."""
    for route in IN_JSON:
        if name.startswith(route):
            return "/api/files/" + name.removeprefix(route)
    if name.startswith("/api/"):
        return name
    if "://" in name:
        raise ValueError("A file of a job is named by its name or its path, not by another URL")
    return f"/api/files/{quote(job_id)}/{quote(name)}"


def target_of(to: str | os.PathLike[str] | None, name: str) -> Path:
    """Where a file goes: to this path, or into this directory under its own name."""
    own = PurePosixPath(unquote(name)).name
    if to is None:
        return Path(own)
    path = Path(to)
    return path / own if path.is_dir() else path


async def download(connection: Connection, path: str, target: Path) -> Path:
    """Under its name there is never a part of it."""
    part = target.with_name(f".{target.name}.part")
    try:
        with part.open("wb") as file:
            await copy(connection, path, file)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return target


async def copy(connection: Connection, path: str, file: BinaryIO) -> None:
    transfer = _Transfer(connection, path, file)
    failures = 0
    while True:
        before = file.tell()
        try:
            await transfer.go_on()
            return
        except (httpx.TransportError, ApiError) as error:
            failures = 1 if file.tell() > before else failures + 1
            retries = connection.retries
            if failures >= retries.attempts or not worth_another(error, safe=True):
                give_up(error, connection.url)
            wait = retries.wait(failures, retry_after_of(error))
        await asyncio.sleep(wait)


class _Transfer:
    def __init__(self, connection: Connection, path: str, file: BinaryIO) -> None:
        self._connection = connection
        self._path = path
        self._file = file
        self._etag: str | None = None

    async def go_on(self) -> None:
        headers = {"Accept-Encoding": "identity"}  # ranges are of the file itself
        if self._etag is not None and (have := self._file.tell()):
            headers |= {"Range": f"bytes={have}-", "If-Range": self._etag}
        async with self._connection.opened(self._path, headers) as response:
            if response.status_code == 202:
                raise ApiError(202, "NOT_ENDED", "The job has not ended")
            if response.status_code != 206:  # from the beginning, or another version by now
                self._file.seek(0)
                self._file.truncate()
            self._etag = response.headers.get("etag")
            write: Callable[[bytes], int] = self._file.write
            async for piece in response.aiter_bytes():
                await asyncio.to_thread(write, piece)
