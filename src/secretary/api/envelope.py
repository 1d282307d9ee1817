"""The form of every answer that is not an error."""

import time
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from fastapi import Request
from fastapi.responses import JSONResponse

from ..job import NO_RESULTS, Job
from ..json_bytes import json_bytes


class Answer(JSONResponse):
    def render(self, content: Any) -> bytes:
        return json_bytes(content)


def success(
    request: Request, processor: str, data: Any, *, process_id: str | None = None
) -> JSONResponse:
    arrived_at: float = request.state.arrived_at
    started = _iso(arrived_at)
    process = {
        "id": process_id or f"request-{uuid4()}",
        "main_processor": processor,
        "started": started,
        "duration_ms": round((time.time() - arrived_at) * 1000, 1),
        "is_from_cache": False,
        "llm_info": {"requests": [], "total_tokens": 0},
    }
    asked = {
        "processor": processor,
        "timestamp": started,
        "parameters": {**request.query_params, **request.path_params},
    }
    return Answer(_body(asked, process, data))


def enqueued(request: Request, process_id: str, data: dict[str, Any]) -> JSONResponse:
    """The answer to everything that adds jobs; `data.job_ids` names them."""
    asked = {
        "processor": "job-enqueue",
        "timestamp": _iso(request.state.arrived_at),
        "parameters": {"job_count": len(data["job_ids"])},
    }
    process = {
        "id": process_id,
        "main_processor": "SecretaryJobWorker",
        "llm_info": {"requests": []},
    }
    return Answer(_body(asked, process, data), 202)


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
            "started": _iso(job.created_at.timestamp()),
            "is_from_cache": False,
        },
        "job": named,
        "webhook": {"delivered_to": job.webhook.url} if job.webhook else None,
        "links": {"self": here, "stream": f"{here}/stream", "cancel": f"{here}/cancel"},
        "error": None,
    }
    return Answer(body, 202, {"Location": here})


def finished(request: Request, job: Job) -> JSONResponse:
    """The answer to a client that has waited for its job: what came of it."""
    results = {**NO_RESULTS, **(job.results or {})}
    started = job.processing_started_at or job.created_at
    ended = job.completed_at or started
    asked = {
        "processor": job.job_type,
        "timestamp": _iso(request.state.arrived_at),
        "parameters": job.document()["parameters"],
    }
    process = {
        "id": job.job_id,
        "main_processor": job.job_type,
        "started": _iso(started.timestamp()),
        "duration_ms": round((ended - started).total_seconds() * 1000, 1),
        "is_from_cache": bool(results.get("is_from_cache", False)),
        "llm_info": results.get("llm_info") or {"requests": [], "total_tokens": 0},
    }
    return Answer(_body(asked, process, results))


def _body(request: dict[str, Any], process: dict[str, Any], data: Any) -> dict[str, Any]:
    return {
        "status": "success",
        "request": request,
        "process": process,
        "data": data,
        "error": None,
    }


def _iso(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp, UTC).isoformat().replace("+00:00", "Z")
