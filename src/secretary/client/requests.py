"""Job and batch submissions, with uploads that can be sent again from the beginning."""

import asyncio
import io
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from pydantic_core import to_json

from .connection import Connection
from .models import JobDocument

#: A path, the content itself, or an open file.
Source = str | os.PathLike[str] | bytes | bytearray | BinaryIO

CHUNK_BYTES = 256 * 1024
#: A stream that cannot be rewound is buffered in memory up to this size, then on disk.
SPOOL_BYTES = 8 * 1024 * 1024
DEFAULT_FILE_NAME = "upload"
#: The routes of job types that take a file.
UPLOAD_ROUTES = {
    "pdf": "/api/pdf/process",
    "office": "/api/office/process",
    "imageocr": "/api/imageocr/process",
    "imageanalyzer": "/api/image-analyzer/process",
    "audio": "/api/audio/process",
    "video": "/api/video/process",
    "transformer": "/api/transformer/template",
}
PLAIN_OPTIONS = (
    "job_name", "priority", "run_at", "max_attempts", "timeout_s", "user_id", "retention_days",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Task:
    """A job to be submitted, on its own or in a batch."""

    job_type: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    webhook: Mapping[str, Any] | str | None = None
    job_name: str | None = None
    priority: int | None = None
    run_at: datetime | None = None
    max_attempts: int | None = None
    timeout_s: float | None = None
    user_id: str | None = None
    access_control: Mapping[str, Any] | None = None
    retention_days: float | None = None
    #: A path, bytes or an open file, for a job in a batch.
    file: Source | None = None
    file_name: str | None = None

    def document(self) -> dict[str, Any]:
        """The body of `POST /api/jobs`."""
        webhook = {"url": self.webhook} if isinstance(self.webhook, str) else self.webhook
        options = {name: getattr(self, name) for name in PLAIN_OPTIONS} | {
            "webhook": dict(webhook) if webhook is not None else None,
            "access_control": dict(self.access_control) if self.access_control else None,
        }
        given = {name: value for name, value in options.items() if value is not None}
        return {"job_type": self.job_type, "parameters": dict(self.parameters), **given}


async def submit(
    connection: Connection,
    task: Task,
    *,
    file: Source | None = None,
    file_name: str | None = None,
    key: str | None = None,
) -> JobDocument:
    """Submit a job. Retries create no duplicates, because they share an idempotency key."""
    key = key or new_idempotency_key()
    if file is None:
        answer = await connection.post("/api/jobs", task.document(), key=key)
        data = answer["data"]
        return JobDocument.model_validate(data["job"] | {"warnings": data.get("warnings", [])})
    if task.job_type not in UPLOAD_ROUTES:
        types = ", ".join(UPLOAD_ROUTES)
        raise ValueError(f"A job of type {task.job_type!r} takes no file; these do: {types}")
    async with open_source(file, file_name) as (content, name):
        document = task.document()
        del document["job_type"], document["parameters"]
        form = Form(encode_fields({**task.parameters, **document}), (content, name))
        answer = await connection.upload(UPLOAD_ROUTES[task.job_type], form, key=key)
    return JobDocument.model_validate(
        {
            "job_id": answer["job_id"],
            "job_type": task.job_type,
            "job_name": task.job_name,
            "warnings": answer.get("warnings", []),
        }
    )


async def submit_batch(
    connection: Connection,
    jobs: Iterable[Task | Mapping[str, Any]],
    options: Mapping[str, Any],
    *,
    key: str | None = None,
) -> dict[str, Any]:
    """Submit a batch, with all files in one request, and return the response."""
    documents, files = split_files(jobs)
    key = key or new_idempotency_key()
    if not files:
        return await connection.post("/api/batches", {**options, "jobs": documents}, key=key)
    async with AsyncExitStack() as stack:
        contents = [await stack.enter_async_context(open_source(*file)) for file in files]
        fields = encode_fields({**options, "jobs": to_json(documents).decode()})
        form = Form(fields, *contents)
        return await connection.upload("/api/batches/from-files", form, key=key)


def split_files(
    jobs: Iterable[Task | Mapping[str, Any]],
) -> tuple[list[dict[str, Any]], list[tuple[Source, str | None]]]:
    """Separate the files from the jobs, whose `file` becomes an index into the files."""
    documents: list[dict[str, Any]] = []
    files: list[tuple[Source, str | None]] = []
    for job in jobs:
        if isinstance(job, Task):
            document, file, name = job.document(), job.file, job.file_name
        else:
            document = dict(job)
            file, name = document.pop("file", None), document.pop("file_name", None)
        if "file" in document.get("parameters", {}):
            raise ValueError("A file is not a parameter: use Task(…, file=…), or `file` of the job")
        if file is not None:
            document["file"] = len(files)
            files.append((file, name))
        documents.append(document)
    return documents, files


def new_idempotency_key() -> str:
    return f"py-{uuid4().hex}"


# Uploads


class Form:
    """A multipart form of fields and open files, which are read from their current positions;
    `chunks` can be called repeatedly."""

    def __init__(self, fields: Mapping[str, str], *files: tuple[BinaryIO, str]) -> None:
        boundary = secrets.token_hex(16)
        self.content_type = f"multipart/form-data; boundary={boundary}"
        self._fields = b"".join(
            _part_header(boundary, f'name="{_quote(key)}"') + value.encode() + b"\r\n"
            for key, value in fields.items()
        )
        self._end = f"--{boundary}--\r\n".encode()
        self.length = len(self._fields) + len(self._end)
        self._files: list[tuple[bytes, BinaryIO, int, int]] = []
        for file, name in files:
            disposition = f'name="file"; filename="{_quote(name)}"'
            header = _part_header(boundary, disposition, binary=True)
            start = file.tell()
            size = file.seek(0, os.SEEK_END) - start
            self._files.append((header, file, start, size))
            self.length += len(header) + size + 2

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._fields
        for header, file, start, remaining in self._files:
            file.seek(start)
            yield header
            # Of a file that grows meanwhile, send only the announced length.
            while remaining:
                chunk = await asyncio.to_thread(file.read, min(remaining, CHUNK_BYTES))
                if not chunk:
                    break
                remaining -= len(chunk)
                yield chunk
            yield b"\r\n"
        yield self._end


@asynccontextmanager
async def open_source(
    source: Source, name: str | None = None
) -> AsyncIterator[tuple[BinaryIO, str]]:
    """Open a source as a seekable file, and determine its name."""
    if isinstance(source, bytes | bytearray):
        yield io.BytesIO(source), name or DEFAULT_FILE_NAME
    elif isinstance(source, str | os.PathLike):
        with await asyncio.to_thread(open, source, "rb") as file:
            yield file, name or Path(source).name
    elif source.seekable():
        start = source.tell()
        try:
            yield source, name or _file_name(source)
        finally:
            source.seek(start)
    else:
        with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as buffer:
            await asyncio.to_thread(shutil.copyfileobj, source, buffer)
            buffer.seek(0)
            yield buffer, name or _file_name(source)  # type: ignore[misc]  # has all methods of one


def encode_fields(fields: Mapping[str, Any]) -> dict[str, str]:
    return {name: form_value(value) for name, value in fields.items() if value is not None}


def form_value(value: Any) -> str:
    """Encode a value as a form field."""
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case list() | tuple() if all(isinstance(part, str) for part in value):
            return ",".join(value)
        case dict() | list() | tuple():
            return json.dumps(value)
        case _:
            return str(value)


def _file_name(file: BinaryIO) -> str:
    name = getattr(file, "name", None)  # other file-like types may lack it
    return Path(name).name if isinstance(name, str) and name else DEFAULT_FILE_NAME


def _part_header(boundary: str, disposition: str, *, binary: bool = False) -> bytes:
    content_type = "Content-Type: application/octet-stream\r\n" if binary else ""
    header = f"Content-Disposition: form-data; {disposition}\r\n{content_type}"
    return f"--{boundary}\r\n{header}\r\n".encode()


def _quote(name: str) -> str:
    """Escape a name as browsers do."""
    return name.replace("\r", "%0D").replace("\n", "%0A").replace('"', "%22")
