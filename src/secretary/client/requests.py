"""What is to be done, as the service takes it."""

from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

from pydantic_core import to_json

from .connection import Connection
from .models import JobDocument
from .uploads import Form, Source, as_text, opened

#: Where a file of a job type goes.
ROUTES = {
    "pdf": "/api/pdf/process",
    "office": "/api/office/process",
    "imageocr": "/api/imageocr/process",
    "audio": "/api/audio/process",
    "video": "/api/video/process",
    "transformer": "/api/transformer/template",
}


@dataclass(frozen=True, slots=True)
class Task:
    """A job that is not handed in yet; a batch is made of these."""

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
    #: A path, bytes or an open file, of a job in a batch.
    file: Source | None = None
    file_name: str | None = None

    def document(self) -> dict[str, Any]:
        """For `POST /api/jobs`."""
        return {"job_type": self.job_type, "parameters": dict(self.parameters), **self.about()}

    def about(self) -> dict[str, Any]:
        hook = {"url": self.webhook} if isinstance(self.webhook, str) else self.webhook
        told = {
            "webhook": dict(hook) if hook is not None else None,
            "job_name": self.job_name,
            "priority": self.priority,
            "run_at": self.run_at,
            "max_attempts": self.max_attempts,
            "timeout_s": self.timeout_s,
            "user_id": self.user_id,
            "access_control": dict(self.access_control) if self.access_control else None,
        }
        return {name: value for name, value in told.items() if value is not None}

    def fields(self) -> dict[str, str]:
        """For a form with a file."""
        fields = {**self.parameters, **self.about()}
        return {name: as_text(value) for name, value in fields.items() if value is not None}


async def submit(
    connection: Connection,
    task: Task,
    *,
    file: Source | None = None,
    file_name: str | None = None,
    key: str | None = None,
) -> JobDocument:
    """However often it must be sent, it becomes one job."""
    key = key or new_idempotency_key()
    if file is None:
        answer = await connection.post("/api/jobs", task.document(), key=key)
        return JobDocument.model_validate(answer["data"]["job"])
    if task.job_type not in ROUTES:
        known = ", ".join(ROUTES)
        raise ValueError(f"A job of type {task.job_type!r} takes no file; these do: {known}")
    async with opened(file, file_name) as (content, name):
        form = Form(task.fields(), (content, name))
        answer = await connection.upload(ROUTES[task.job_type], form, key=key)
    return JobDocument(
        job_id=answer["job_id"], job_type=task.job_type, job_name=task.job_name, status="pending"
    )


async def submit_batch(
    connection: Connection,
    jobs: Iterable[Task | Mapping[str, Any]],
    about: Mapping[str, Any],
    *,
    key: str | None = None,
) -> dict[str, Any]:
    """The answer of the service; files of jobs go with them in one request."""
    documents, files = task_documents(jobs)
    key = key or new_idempotency_key()
    if not files:
        return await connection.post("/api/batches", {**about, "jobs": documents}, key=key)
    fields = {name: as_text(value) for name, value in about.items() if value is not None}
    async with AsyncExitStack() as stack:
        contents = [await stack.enter_async_context(opened(*file)) for file in files]
        form = Form({**fields, "jobs": to_json(documents).decode()}, *contents)
        return await connection.upload("/api/batches/from-files", form, key=key)


def task_documents(
    jobs: Iterable[Task | Mapping[str, Any]],
) -> tuple[list[dict[str, Any]], list[tuple[Source, str | None]]]:
    """Of tasks, or of documents as `POST /api/jobs` takes them; where one has a `file`, the
    number of it among the files stands in its place."""
    documents: list[dict[str, Any]] = []
    files: list[tuple[Source, str | None]] = []
    for job in jobs:
        document = job.document() if isinstance(job, Task) else dict(job)
        if isinstance(job, Task):
            file, name = job.file, job.file_name
        else:
            file, name = document.pop("file", None), document.pop("file_name", None)
        if "file" in document.get("parameters", {}):
            raise ValueError("A file is no parameter: Task(…, file=…), or `file` of the job")
        if file is not None:
            document["file"] = len(files)
            files.append((file, name))
        documents.append(document)
    return documents, files


def new_idempotency_key() -> str:
    return f"py-{uuid4().hex}"
