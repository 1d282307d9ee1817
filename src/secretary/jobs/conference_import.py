"""Turns a conference schedule into a batch with one session job per talk."""

import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from ..config import MEBIBYTE
from ..core import errors
from ..core.callables import LazyCallable
from ..core.fence import Fence
from ..network import DownloadLimits
from ..worker.sandbox import Limits, Sandbox
from .submission import BatchRequest, Request, parse_request

if TYPE_CHECKING:
    from ..network.client import Network

PARSE_SCHEDULE: LazyCallable[list[dict[str, Any]]] = LazyCallable(
    "web.schedule", "session_parameters", returns=list[dict[str, Any]]
)

DOWNLOAD_LIMITS = DownloadLimits(
    max_bytes=32 * MEBIBYTE, total=timedelta(seconds=60), idle=timedelta(seconds=15)
)
PARSE_LIMITS = Limits(
    wall_time=timedelta(seconds=60), memory_bytes=1024 * MEBIBYTE, output_bytes=64 * MEBIBYTE
)
#: Schedules parsed at a time; each takes a process.
MAX_CONCURRENT = 2

WHITESPACE = b"\xef\xbb\xbf \t\r\n"
#: XML, JSON, and the byte order marks of XML in UTF-16.
FORMAT_PREFIXES = (b"<", b"{", b"\xff\xfe", b"\xfe\xff")

Talks = list[dict[str, Any]]


def _as_list(value: Any) -> Any:
    """Accept one value or several; a form sends a list as JSON text."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError("it must be a text, or a JSON list of texts") from None
    return [] if value is None or value == "" else [value] if isinstance(value, str) else value


TextFilter = Annotated[
    tuple[Annotated[str, Field(max_length=500)], ...],
    Field(max_length=100),
    BeforeValidator(_as_list),
]
#: Fields of the request that apply to each job.
JOB_FIELDS = ("priority", "run_at", "max_attempts", "timeout_s")


class ScheduleRequest(Request):
    """Which talks of a schedule become jobs. Unknown fields, such as `template` and
    `target_language`, are parameters of each session job."""

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
    """The batch for these talks. What the schedule says of a talk overrides the request."""
    shared = {name: getattr(request, name) for name in JOB_FIELDS}
    shared = {name: value for name, value in shared.items() if value not in (None, "")}
    return parse_request(
        BatchRequest,
        {
            "batch_name": request.batch_name or talks[0].get("event"),
            "user_id": request.user_id,
            "access_control": request.access_control,
            "webhook": request.webhook,
            "retention_days": request.retention_days,
            "isActive": request.is_active,
            "jobs": [
                {
                    **shared,
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
    """Parses untrusted schedules, each in its own sandbox process."""

    network: "Network | None" = None
    limits: DownloadLimits = DOWNLOAD_LIMITS
    parse_limits: Limits = PARSE_LIMITS
    fence: Fence | None = None
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT))

    async def fetch(self, url: str, request: ScheduleRequest) -> Talks:
        # Loaded here, because most processes that import this never download.
        from ..network.client import Network
        from ..network.downloads import download

        network = self.network or Network()

        with tempfile.TemporaryDirectory(prefix="schedule-") as directory:
            target = Path(directory) / "schedule"
            try:
                downloaded = await download(network, url, target, limits=self.limits)
            except errors.DownloadFailed as error:
                raise errors.InvalidParameters(f"url: {error.message}", **error.details) from None
            data = await asyncio.to_thread(target.read_bytes)
        return await self.read(data, request, url=downloaded.final_url)

    async def read(self, data: bytes, request: ScheduleRequest, *, url: str = "") -> Talks:
        """The parameters of a session job for each talk that matches the request."""
        if not data.lstrip(WHITESPACE).startswith(FORMAT_PREFIXES):
            raise errors.UnsupportedFile("The schedule is neither XML nor JSON")
        filters = (request.event, request.track, request.day, request.title)
        async with self._slots:
            sandbox = Sandbox(1, limits=self.parse_limits, fence=self.fence)
            await sandbox.open()
            try:
                return await sandbox.run(PARSE_SCHEDULE, data, url, *filters)
            except (errors.ProcessingTimeout, errors.ProcessDied):
                text = "Parsing the schedule exceeds the limits of time or memory"
                raise errors.FileCorrupt(text) from None
            finally:
                await sandbox.close()
