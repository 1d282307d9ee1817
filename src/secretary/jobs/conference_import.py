"""Makes the schedule of a conference one batch: a session job for each of its talks."""

import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from ..config import MEBIBYTE, DownloadLimits
from ..core.callables import LazyCallable
from ..core.errors import (
    DownloadFailed,
    FileCorrupt,
    InvalidParameters,
    ProcessDied,
    ProcessingTimeout,
    UnsupportedFile,
)
from ..worker.sandbox import Limits, Sandbox
from .submission import BatchRequest, Request, parse_request

PARSE_SCHEDULE: LazyCallable[list[dict[str, Any]]] = LazyCallable(
    "web.schedule", "session_parameters"
)

DOWNLOAD_LIMITS = DownloadLimits(
    max_bytes=32 * MEBIBYTE, total=timedelta(seconds=60), idle=timedelta(seconds=15)
)
PARSE_LIMITS = Limits(
    wall_time=timedelta(seconds=60), memory_bytes=1024 * MEBIBYTE, output_bytes=64 * MEBIBYTE
)
#: Read at the same time; each takes a process.
MAX_CONCURRENT = 2

WHITESPACE = b"\xef\xbb\xbf \t\r\n"
#: XML, JSON, and the mark that XML in UTF-16 begins with.
FORMAT_PREFIXES = (b"<", b"{", b"\xff\xfe", b"\xfe\xff")

Talks = list[dict[str, Any]]


def _several(value: Any) -> Any:
    """One, or several as a list; a form has only texts."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError("it must be a text, or a list of texts as JSON") from None
    return [] if value is None or value == "" else [value] if isinstance(value, str) else value


TextFilter = Annotated[
    tuple[Annotated[str, Field(max_length=500)], ...],
    Field(max_length=100),
    BeforeValidator(_several),
]
#: What is said about each job alike.
JOB_FIELDS = ("priority", "run_at", "max_attempts", "timeout_s")


class ScheduleRequest(Request):
    """Which talks of a schedule are to become jobs. What nobody knows here is a parameter of each
    session job: `template`, `target_language`, …"""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)

    event: Annotated[str | None, Field(max_length=500)] = None
    track: TextFilter = ()
    day: TextFilter = ()
    title: TextFilter = ()
    batch_name: Annotated[str | None, Field(max_length=500)] = None
    is_active: bool = Field(default=True, alias="isActive")
    priority: Any = None
    run_at: Any = None
    max_attempts: Any = None
    timeout_s: Any = None


def batch_request(request: ScheduleRequest, talks: Sequence[dict[str, Any]]) -> BatchRequest:
    """What a schedule tells of a talk is worth more than what is said about all of them."""
    about = {name: getattr(request, name) for name in JOB_FIELDS}
    about = {name: value for name, value in about.items() if value not in (None, "")}
    return parse_request(
        BatchRequest,
        {
            "batch_name": request.batch_name or talks[0].get("event"),
            "user_id": request.user_id,
            "access_control": request.access_control,
            "webhook": request.webhook,
            "isActive": request.is_active,
            "jobs": [
                {
                    **about,
                    "job_type": "session",
                    "job_name": talk["session"][:500],
                    "parameters": {**(request.model_extra or {}), **talk},
                }
                for talk in talks
            ],
        },
    )


@dataclass(frozen=True)
class ConferenceImporter:
    """Reads schedules of strangers in processes of their own, so that none can hold up another."""

    allow_hosts: tuple[str, ...] = ()
    limits: DownloadLimits = DOWNLOAD_LIMITS
    reading: Limits = PARSE_LIMITS
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT))

    async def at_url(self, url: str, request: ScheduleRequest) -> Talks:
        # Loaded here, because most processes that import this never download.
        from ..network.client import Network
        from ..network.downloads import download

        with tempfile.TemporaryDirectory(prefix="schedule-") as directory:
            target = Path(directory) / "schedule"
            try:
                network = Network(self.allow_hosts)
                done = await download(network, url, target, limits=self.limits)
            except DownloadFailed as error:
                raise InvalidParameters(f"url: {error.message}", **error.details) from None
            data = await asyncio.to_thread(target.read_bytes)
        return await self.read(data, request, url=done.final_url)

    async def read(self, data: bytes, request: ScheduleRequest, *, url: str = "") -> Talks:
        """The parameters of a session job for each talk that is asked for."""
        if not data.lstrip(WHITESPACE).startswith(
            FORMAT_PREFIXES
        ):  # no process is needed to see that
            raise UnsupportedFile("The schedule is neither XML nor JSON")
        asked = (data, url, request.event, request.track, request.day, request.title)
        async with self._turns:
            sandbox = Sandbox(1, limits=self.reading)
            await sandbox.open()
            try:
                return await sandbox.run(PARSE_SCHEDULE, *asked)
            except (ProcessingTimeout, ProcessDied):
                text = "To read the schedule takes more time or memory than any should"
                raise FileCorrupt(text) from None
            finally:
                await sandbox.close()
