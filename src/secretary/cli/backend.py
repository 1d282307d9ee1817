"""Where jobs are, as the commands see it: the store of this machine, or a service elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import unquote

if TYPE_CHECKING:
    from ..observability.doctor import Finding

#: Of a job or batch, as the HTTP API shows it.
Document = dict[str, Any]

JobVerb = Literal["cancel", "restart", "archive", "unarchive"]
BatchVerb = Literal["pause", "resume", "archive", "unarchive", "cancel", "restart-failed"]


class Status(StrEnum):
    """Those of jobs; a test holds them to it. Here, because a command must start at once."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
OPEN = (Status.PROCESSING, Status.PENDING)
WAITING = "waiting to start"

#: Where results say that a file of their job is.
FILE_ROUTES = ("/api/files", "/api/files/text", "/api/pdf/text-content")


@dataclass(frozen=True, slots=True)
class Advance:
    """How far a job is, in percent and in words."""

    percent: int
    text: str

    @classmethod
    def of(cls, job: Document) -> "Advance":
        if job["status"] == Status.PENDING:
            return cls(0, WAITING)
        progress = job["progress"]
        return cls(progress["percent"], progress.get("message") or progress["step"])


Tell = Callable[[Advance], object]


@dataclass(frozen=True, slots=True)
class JobFilter:
    status: tuple[Status, ...] = ()
    job_type: str | None = None
    batch_id: str | None = None
    user_id: str | None = None
    everything: bool = False
    limit: int = 50
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class BatchFilter:
    user_id: str | None = None
    everything: bool = False
    limit: int = 50
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    items: list[Document]
    next_cursor: str | None


class Backend(Protocol):
    """Whatever goes wrong is a `SecretaryError`, the same on both sides."""

    async def job_types(self) -> list[str]: ...

    async def has_workers(self) -> bool: ...

    async def submit(self, request: Document, file: Path | None = None) -> Document: ...

    async def job(self, job_id: str) -> Document: ...

    async def follow(self, job_id: str, tell: Tell) -> Document:
        """The job when it has ended."""

    async def jobs(self, wanted: JobFilter) -> Listed:
        """Without their results and logs."""

    async def change(self, job_id: str, verb: JobVerb) -> Document: ...

    async def delete(self, job_id: str) -> None: ...

    async def file(self, job: Document, link: str, into: Path) -> Path | None:
        """A file of a job, by its name in the results: where it is, or where it was put in the
        directory `into`. None if there is none."""

    async def submit_batch(self, request: Document) -> Document: ...

    async def batch(self, batch_id: str) -> Document: ...

    async def batches(self, wanted: BatchFilter) -> Listed: ...

    async def change_batch(self, batch_id: str, verb: BatchVerb) -> Document:
        """The batch; with `job_ids` where the verb is for its jobs."""

    async def delete_batch(self, batch_id: str) -> None: ...

    async def templates(self) -> list[Document]: ...
    async def workers(self) -> list[Document]: ...

    async def findings(self) -> "list[Finding]":
        """What is well there, and what is not."""


def name_in(job_id: str, link: str | None) -> str | None:
    """The name of a job's file in a link of its results, None if it is no such link."""
    before, _, name = (link or "").partition(f"/{job_id}/")
    name = unquote(name)
    is_plain = name and not {"", ".", ".."} & set(name.split("/"))
    return name if before in FILE_ROUTES and is_plain else None
