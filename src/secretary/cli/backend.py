"""What commands need from a backend: the local store, or a service over HTTP."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import unquote

if TYPE_CHECKING:
    from .local import LocalBackend
    from .remote import RemoteBackend

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


#: Both have the same methods, and raise every failure as a `SecretaryError`.
Backend: TypeAlias = "LocalBackend | RemoteBackend"


def linked_file_name(job_id: str, link: str | None) -> str | None:
    """Return the name of the job's file that a result links to, or None for any other link."""
    route, _, name = (link or "").partition(f"/{job_id}/")
    name = unquote(name)
    is_safe = name and not {"", ".", ".."} & set(name.split("/"))
    return name if route in FILE_ROUTES and is_safe else None
