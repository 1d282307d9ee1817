"""The form of every answer that is not an error."""

import time
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from fastapi import Request
from fastapi.responses import JSONResponse


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
    return JSONResponse(_body(asked, process, data))


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
    return JSONResponse(_body(asked, process, data), 202)


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
