"""Builds the successful responses; `models` describes their shapes."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from ..core.job import EMPTY_RESULTS, Job, iso
from ..core.json_codec import encode_off_loop


class JsonResponse(JSONResponse):
    """Encodes its content when it is sent, off the event loop if it is large. Returns any JSON that
    was accepted, even a lone surrogate."""

    def __init__(
        self, content: Any, status_code: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(None, status_code, headers)
        self._content = content

    def render(self, content: Any) -> bytes:
        return b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.body = await encode_off_loop(self._content)
        self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def success(
    request: Request, processor: str, data: BaseModel | dict[str, Any], *, process_id: str = ""
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
    request_info = {
        "processor": processor,
        "timestamp": started,
        "parameters": {**request.query_params, **request.path_params},
    }
    if isinstance(data, BaseModel):
        data = data.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return JsonResponse(_envelope(request_info, process, data))


def enqueued(request: Request, location: str, data: dict[str, Any]) -> JSONResponse:
    """The 202 of routes that add jobs; `location` is the path of the new job or batch."""
    request_info = {
        "processor": "job-enqueue",
        "timestamp": _arrived(request),
        "parameters": {"job_count": len(data["job_ids"])},
    }
    process = {
        "id": location.rpartition("/")[2],
        "main_processor": "SecretaryJobWorker",
        "llm_info": {"requests": []},
    }
    return JsonResponse(_envelope(request_info, process, data), 202, {"Location": location})


def accepted(job: Job, client_id: str | None) -> JSONResponse:
    """The 202 of ingress routes."""
    path = f"/api/jobs/{job.job_id}"
    body = {
        "status": "accepted",
        "worker": "secretary",
        "job_id": job.job_id,
        "process": {
            "id": job.job_id,
            "main_processor": job.job_type,
            "started": iso(job.created_at),
            "is_from_cache": False,
        },
        "job": {"id": job.job_id} | ({"client_id": client_id} if client_id else {}),
        "webhook": {"delivered_to": job.webhook.url} if job.webhook else None,
        "links": {"self": path, "stream": f"{path}/stream", "cancel": f"{path}/cancel"},
        "error": None,
    }
    return JsonResponse(body, 202, {"Location": path})


def finished(request: Request, job: Job) -> JSONResponse:
    """The 200 of ingress routes for a client that waited until the job completed."""
    results = {**EMPTY_RESULTS, **(job.results or {})}
    started = job.processing_started_at or job.created_at
    ended = job.completed_at or started
    request_info = {
        "processor": job.job_type,
        "timestamp": _arrived(request),
        "parameters": job.document(without=frozenset({"results", "logs"}))["parameters"],
    }
    process = {
        "id": job.job_id,
        "main_processor": job.job_type,
        "started": iso(started),
        "duration_ms": round((ended - started).total_seconds() * 1000, 1),
        "is_from_cache": bool(results.get("is_from_cache", False)),
        "llm_info": results.get("llm_info") or {"requests": [], "total_tokens": 0},
    }
    return JsonResponse(
        _envelope(request_info, process, results), headers={"Location": f"/api/jobs/{job.job_id}"}
    )


def _envelope(request: dict[str, Any], process: dict[str, Any], data: Any) -> dict[str, Any]:
    return {
        "status": "success",
        "request": request,
        "process": process,
        "data": data,
        "error": None,
    }


def _arrived(request: Request) -> str:
    return iso(datetime.fromtimestamp(request.state.arrived_at, UTC))
