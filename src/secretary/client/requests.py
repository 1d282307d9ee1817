"""Job and batch submissions in the form that the service accepts."""

from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

from pydantic_core import to_json

from .connection import Connection
from .models import JobDocument
from .uploads import Form, Source, form_value, open_source

#: Where to upload a file, by job type.
UPLOAD_ROUTES = {
    "pdf": "/api/pdf/process",
    "office": "/api/office/process",
    "imageocr": "/api/imageocr/process",
    "audio": "/api/audio/process",
    "video": "/api/video/process",
    "transformer": "/api/transformer/template",
}


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
    #: A path, bytes or an open file, for a job in a batch.
    file: Source | None = None
    file_name: str | None = None

    def document(self) -> dict[str, Any]:
        """The body of `POST /api/jobs`."""
        return {"job_type": self.job_type, "parameters": dict(self.parameters), **self._options()}

    def form_fields(self) -> dict[str, str]:
        """The fields of a form with a file."""
        fields = {**self.parameters, **self._options()}
        return {name: form_value(value) for name, value in fields.items() if value is not None}

    def _options(self) -> dict[str, Any]:
        webhook = {"url": self.webhook} if isinstance(self.webhook, str) else self.webhook
        options = {
            "webhook": dict(webhook) if webhook is not None else None,
            "job_name": self.job_name,
            "priority": self.priority,
            "run_at": self.run_at,
            "max_attempts": self.max_attempts,
            "timeout_s": self.timeout_s,
            "user_id": self.user_id,
            "access_control": dict(self.access_control) if self.access_control else None,
        }
        return {name: value for name, value in options.items() if value is not None}


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
        return JobDocument.model_validate(answer["data"]["job"])
    if task.job_type not in UPLOAD_ROUTES:
        types = ", ".join(UPLOAD_ROUTES)
        raise ValueError(f"A job of type {task.job_type!r} takes no file; these do: {types}")
    async with open_source(file, file_name) as (content, name):
        form = Form(task.form_fields(), (content, name))
        answer = await connection.upload(UPLOAD_ROUTES[task.job_type], form, key=key)
    return JobDocument(
        job_id=answer["job_id"], job_type=task.job_type, job_name=task.job_name, status="pending"
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
    fields = {name: form_value(value) for name, value in options.items() if value is not None}
    async with AsyncExitStack() as stack:
        contents = [await stack.enter_async_context(open_source(*file)) for file in files]
        form = Form({**fields, "jobs": to_json(documents).decode()}, *contents)
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
