"""Answers that wait for the end of a job, for clients that want it in one request."""

from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse

from ..errors import InvalidParameters
from ..events import Hub
from ..job import Job, JobStatus
from .asked import desk_of
from .envelope import finished
from .errors import job_error_response

LONGEST_SECONDS = 60.0
TRUE = frozenset({"true", "1", "yes", "on"})
FALSE = frozenset({"false", "0", "no", "off", ""})


def patience_of(request: Request, fields: Mapping[str, Any]) -> float:
    """How many seconds the client wants to wait; 0: not at all."""
    told = {name.replace("_", "").lower(): value for name, value in fields.items()}
    if _is_true(told.get("sync")):
        return LONGEST_SECONDS
    milliseconds = _number("wait_ms", told.get("waitms") or 0)
    return min(max(milliseconds / 1000, _preferred(request)), LONGEST_SECONDS)


def _is_true(value: Any) -> bool:
    text = str(value if value is not None else "").lower()
    if text not in TRUE | FALSE:
        raise InvalidParameters("sync: it must be true or false")
    return text in TRUE


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1
    if not 0 <= number < float("inf"):
        raise InvalidParameters(f"{name}: it must be a number of at least 0")
    return number


def _preferred(request: Request) -> float:
    """`Prefer: respond-async, wait=10` (RFC 7240). What is not understood is ignored."""
    for part in request.headers.get("prefer", "").replace(";", ",").split(","):
        name, _, value = part.partition("=")
        seconds = value.strip().strip('"')
        if name.strip().lower() == "wait" and seconds.isascii() and seconds.isdigit():
            return min(float(seconds[:6]), LONGEST_SECONDS)
    return 0


async def told_in_time(request: Request, job: Job, seconds: float) -> JSONResponse | None:
    """How the job ended, or None when it has not after so many seconds."""
    hub: Hub = request.app.state.hub
    ended = await hub.ended(job.job_id, seconds)
    if ended is None:
        return None
    if ended.status is JobStatus.COMPLETED:
        response = finished(request, await desk_of(request).whole(ended))
    else:
        assert ended.error is not None
        response = job_error_response(ended.error)
    response.headers["Location"] = f"/api/jobs/{job.job_id}"
    return response


def say_what_was_preferred(request: Request, response: JSONResponse) -> None:
    """Also an answer that the end of the job did not come in time for has waited."""
    if seconds := _preferred(request):
        response.headers["Preference-Applied"] = f"wait={seconds:g}"
