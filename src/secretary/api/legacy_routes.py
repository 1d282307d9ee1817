"""The routes of the previous service: which are served, and what replaces those that are gone."""

from dataclasses import dataclass
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response

from .responses import error_response

Outcome = Literal["served", "gone", "unknown"]


@dataclass(frozen=True, slots=True)
class LegacyRoute:
    """`served` routes work. `gone` ones return 410 with the note as a hint. `unknown` ones return
    404: they were meant for people, or never worked."""

    method: str
    path: str
    outcome: Outcome
    note: str = ""


def _served(method: str, path: str, note: str = "") -> LegacyRoute:
    return LegacyRoute(method, f"/api{path}", "served", note)


def _gone(method: str, path: str, note: str) -> LegacyRoute:
    return LegacyRoute(method, f"/api{path}", "gone", note)


_MODELS = "Set the models in the config file (`llm`); `GET /api/system` shows them."
_OWN_TEMPLATE = "Use `POST /api/transformer/template` with a template of your own."
_NO_SAMPLES = "There are no sample files."
_DASHBOARD = "The dashboard is at `/`."

LEGACY_ROUTES = (
    # Documents
    _served("POST", "/pdf/process"),
    _served("POST", "/pdf/process-url"),
    _served("POST", "/pdf/process-mistral-ocr"),
    _served("GET", "/pdf/text-content/{path}"),
    _served("GET", "/pdf/jobs/{job_id}/mistral-ocr-raw"),
    _served("GET", "/pdf/jobs/{job_id}/mistral-ocr-images"),
    _served("GET", "/pdf/jobs/{job_id}/download-pages-archive"),
    _served("POST", "/office/process"),
    _served("POST", "/office/process-via-pdf", "The default method is `auto`."),
    _served("GET", "/office/jobs/{job_id}/markdown"),
    _gone(
        "GET",
        "/office/jobs/{job_id}/mistral-ocr-raw",
        "Convert the file to PDF and use `POST /api/pdf/process-mistral-ocr`.",
    ),
    _served("POST", "/imageocr/process"),
    _served("POST", "/imageocr/process-url"),
    _served("POST", "/image-analyzer/process"),
    _served("POST", "/image-analyzer/process-url"),
    # Recordings
    _served("POST", "/audio/process"),
    _served("POST", "/video/process"),
    _served("POST", "/video/youtube"),
    _gone(
        "POST",
        "/video/frames",
        "Use `POST /api/video/process`: `include_frames` saves an image of each slide.",
    ),
    # Texts
    _served("POST", "/transformer/template"),
    _served("POST", "/transformer/text"),
    _served("POST", "/transformer/text/file", "The same as `transformer/text` with a file."),
    _served(
        "POST",
        "/transformer/xxl-text",
        "The same as `transformer/text` with `summarize`; long texts are split automatically.",
    ),
    _served("POST", "/transformer/chat"),
    _gone(
        "POST",
        "/transformer/html-table",
        "Use `POST /api/office/process` for Markdown tables, or"
        " `POST /api/transformer/template` for JSON.",
    ),
    _gone(
        "POST",
        "/transformer/metadata",
        "Each result has `metadata`: use the route for the file type, such as"
        " `POST /api/pdf/process`.",
    ),
    _served("POST", "/rag/embed-text"),
    _served("POST", "/text2image/generate"),
    _gone("POST", "/story/generate", _OWN_TEMPLATE),
    _gone("GET", "/story/topics", _OWN_TEMPLATE),
    _gone("GET", "/story/target-groups", _OWN_TEMPLATE),
    _gone("POST", "/common/notion", _OWN_TEMPLATE),
    # Conferences
    _served("POST", "/session/process"),
    _gone("POST", "/session/process-async", "Use `POST /api/session/process` with `async=true`."),
    _gone("GET", "/session/cached", "Use `GET /api/jobs?job_type=session&status=completed`."),
    _served("POST", "/tracks/{name}/summary"),
    _served("POST", "/tracks/*/summarize_all", "The `*` is literal: all tracks."),
    _gone("POST", "/events/{name}/summary", "Use `POST /api/tracks/{name}/summary` per track."),
    # Jobs
    _served("POST", "/jobs", "Also with a trailing slash, like every route."),
    _served("GET", "/jobs/{job_id}"),
    _served("GET", "/jobs/{job_id}/stream"),
    _served("GET", "/jobs/{job_id}/download-archive"),
    _served("POST", "/jobs/batch"),
    _served("GET", "/jobs/batch/{batch_id}"),
    # Service
    _served("GET", ""),
    _served("GET", "/doc"),
    _served("GET", "/swagger.json", "The OpenAPI document, version 3.1."),
    _served("GET", "/health"),
    _served("GET", "/health/live"),
    _gone("GET", "/health/use-case/{name}", "Use `GET /api/system`: `engines` lists the models."),
    _gone("GET", "/health/endpoint/{name}", "Use `GET /api/system`: `engines` lists the models."),
    _gone("GET", "/recent-requests", "Use `GET /api/jobs`."),
    _gone("GET", "/api/llm-config", _MODELS),
    _gone("GET", "/api/llm-config/providers", _MODELS),
    _gone("GET", "/api/llm-config/models", _MODELS),
    _gone("GET", "/api/llm-config/presets", _MODELS),
    _gone("GET", "/api/llm-config/available-models", _MODELS),
    _gone("POST", "/api/llm-config/test", "Use `secretary doctor`."),
    _gone("GET", "/llm-config", _MODELS),
    LegacyRoute("GET", "/api/common", "unknown", _NO_SAMPLES),
    LegacyRoute("GET", "/api/common/samples", "unknown", _NO_SAMPLES),
    LegacyRoute("GET", "/api/samples", "unknown", _NO_SAMPLES),
    LegacyRoute("GET", "/api/samples/{file}", "unknown", _NO_SAMPLES),
    LegacyRoute("GET", "/", "served", "The dashboard."),
    LegacyRoute("GET", "/health", "unknown", "`GET /api/health` is for programs."),
    LegacyRoute("GET", "/test", "unknown", _DASHBOARD),
    LegacyRoute("GET", "/logs", "unknown", "Each job has its log; the service's own is on stderr."),
    LegacyRoute("GET", "/clear-logs", "unknown", _DASHBOARD),
    LegacyRoute("GET", "/docs", "unknown", "`GET /api/doc` describes the API."),
    LegacyRoute("GET", "/llm-config", "unknown", _MODELS),
)


def legacy_router() -> APIRouter:
    """Answers the routes that are gone; they are not part of the OpenAPI document."""
    router = APIRouter()
    for route in LEGACY_ROUTES:
        if route.outcome == "gone":
            router.add_api_route(
                route.path, _gone_endpoint(route), methods=[route.method], include_in_schema=False
            )
    return router


def _gone_endpoint(route: LegacyRoute) -> Any:
    async def endpoint(request: Request) -> Response:
        message = f"{route.method} {route.path} no longer exists. {route.note.replace('`', '')}"
        return error_response(410, message, details={"hint": route.note})

    return endpoint
