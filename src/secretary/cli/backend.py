"""What commands need from a backend: the local store, or a service over HTTP."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import unquote

if TYPE_CHECKING:
    from ..observability.doctor import Finding

#: A job or batch as the HTTP API shows it.
Document = dict[str, Any]

Collection = Literal["jobs", "batches"]
JobAction = Literal["cancel", "restart", "archive", "unarchive"]
BatchAction = Literal["pause", "resume", "archive", "unarchive", "cancel", "restart-failed"]


class Status(StrEnum):
    """The job states. Repeated here, because importing `core.job` would slow down `--help`."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
WAITING = "waiting to start"

#: Routes under which results link to files of their job.
FILE_ROUTES = ("/api/files", "/api/files/text", "/api/pdf/text-content")


@dataclass(frozen=True, slots=True)
class JobProgress:
    percent: int
    text: str

    @classmethod
    def of(cls, job: Document) -> "JobProgress":
        if job["status"] == Status.PENDING:
            return cls(0, WAITING)
        progress = job["progress"]
        return cls(progress["percent"], progress.get("message") or progress["step"])


OnProgress = Callable[[JobProgress], object]


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Selects jobs or batches; `status`, `job_type` and `batch_id` apply to jobs only."""

    status: tuple[Status, ...] = ()
    job_type: str | None = None
    batch_id: str | None = None
    user_id: str | None = None
    include_archived: bool = False
    limit: int = 50
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    items: list[Document]
    next_cursor: str | None


class Backend(Protocol):
    """Every failure is raised as a `SecretaryError`, whichever backend it comes from."""

    async def job_types(self) -> list[str]: ...

    async def submit(self, request: Document, file: Path | None = None) -> Document: ...

    async def submit_batch(self, request: Document) -> Document: ...

    async def get(self, collection: Collection, resource_id: str) -> Document: ...

    async def find(self, collection: Collection, filters: ListFilter) -> Page:
        """List jobs (without their results and logs) or batches, newest first."""

    async def delete(self, collection: Collection, resource_id: str) -> None: ...

    async def follow(self, job_id: str, on_progress: OnProgress) -> Document:
        """Wait for the job to finish and return it."""

    async def change_job(self, job_id: str, action: JobAction) -> Document: ...

    async def fetch_file(self, job: Document, link: str, directory: Path) -> Path | None:
        """Return the path of a file that the results link to, or None if it does not exist.

        A file that is not on this machine is saved to `directory`."""

    async def change_batch(self, batch_id: str, action: BatchAction) -> Document:
        """Return the batch, with the changed `job_ids` if the action applies to its jobs."""

    async def templates(self) -> list[Document]: ...

    async def workers(self) -> list[Document]: ...

    async def findings(self) -> "list[Finding]":
        """Run the doctor's checks."""


def linked_file_name(job_id: str, link: str | None) -> str | None:
    """Return the name of the job's file that a result links to, or None for any other link."""
    route, _, name = (link or "").partition(f"/{job_id}/")
    name = unquote(name)
    is_safe = name and not {"", ".", ".."} & set(name.split("/"))
    return name if route in FILE_ROUTES and is_safe else None
