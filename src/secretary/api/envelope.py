"""The form of every answer that is not an error."""

import time
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from fastapi import Request
from fastapi.responses import JSONResponse

from ..core.job import EMPTY_RESULTS, Job
from ..core.json_codec import encode_json


class JsonAnswer(JSONResponse):
    """Whatever came in as JSON goes out again, half a surrogate pair too."""

    def render(self, content: Any) -> bytes:
        return encode_json(content)


def success(
    request: Request, processor: str, data: Any, *, process_id: str | None = None
) -> JSONResponse:
    started = _arrived(request)
    process = {
        "id": process_id or f"request-{uuid4()}",
        "main_processor": processor,
        "started": started,
        "duration_ms": round((time.time() - request.state.arrived_at) * 1000, 1),
        "is_from_cache": False,
        "llm_info": {"requests": [], "total_tokens": 0},
    }
    asked = {
        "processor": processor,
        "timestamp": started,
        "parameters": {**request.query_params, **request.path_params},
    }
    return JsonAnswer(_body(asked, process, data))


def enqueued(request: Request, process_id: str, data: dict[str, Any]) -> JSONResponse:
    """The answer to everything that adds jobs; `data.job_ids` names them."""
    asked = {
        "processor": "job-enqueue",
        "timestamp": _arrived(request),
        "parameters": {"job_count": len(data["job_ids"])},
    }
    process = {
        "id": process_id,
        "main_processor": "SecretaryJobWorker",
        "llm_info": {"requests": []},
    }
    return JsonAnswer(_body(asked, process, data), 202)


def accepted(request: Request, job: Job, client_id: str | None) -> JSONResponse:
    """The answer to a file or URL: it has become a job."""
    here = f"/api/jobs/{job.job_id}"
    named = {"id": job.job_id} | ({"client_id": client_id} if client_id else {})
    body = {
        "status": "accepted",
        "worker": "secretary",
        "job_id": job.job_id,
        "process": {
            "id": job.job_id,
            "main_processor": job.job_type,
            "started": in_utc(job.created_at),
            "is_from_cache": False,
        },
        "job": named,
        "webhook": {"delivered_to": job.webhook.url} if job.webhook else None,
        "links": {"self": here, "stream": f"{here}/stream", "cancel": f"{here}/cancel"},
        "error": None,
    }
    return JsonAnswer(body, 202, {"Location": here})


def finished(request: Request, job: Job) -> JSONResponse:
    """The answer to a client that has waited for its job: what came of it."""
    results = {**EMPTY_RESULTS, **(job.results or {})}
    started = job.processing_started_at or job.created_at
    ended = job.completed_at or started
    asked = {
        "processor": job.job_type,
        "timestamp": _arrived(request),
        "parameters": job.document()["parameters"],
    }
    process = {
        "id": job.job_id,
        "main_processor": job.job_type,
        "started": in_utc(started),
        "duration_ms": round((ended - started).total_seconds() * 1000, 1),
        "is_from_cache": bool(results.get("is_from_cache", False)),
        "llm_info": results.get("llm_info") or {"requests": [], "total_tokens": 0},
    }
    return JsonAnswer(_body(asked, process, results))


def _body(request: dict[str, Any], process: dict[str, Any], data: Any) -> dict[str, Any]:
    return {
        "status": "success",
        "request": request,
        "process": process,
        "data": data,
        "error": None,
    }


def _arrived(request: Request) -> str:
    return in_utc(datetime.fromtimestamp(request.state.arrived_at, UTC))


def in_utc(at: datetime) -> str:
    """A time as every answer has it."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
