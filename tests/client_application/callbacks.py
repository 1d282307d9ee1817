"""The application's side of a callback: it judges events and does its own work before it answers.

A final event is answered only after the archives are downloaded, the template is applied and the
text is embedded, all of it by calls back to the service.
"""

import json
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any, Literal

import httpx

from ..http_servers import answering
from ..polling import wait_until
from .calls import Calls, File, new_token
from .readers import ClientFailure, archive

TEMPLATE = """\
---
title: {{title|Der Titel des Dokuments}}
tags: {{tags|Schlagworte (Array von Strings)}}
---
{{bodyInText|Das Dokument in zwei Absätzen}}
--- systemprompt
Du bist eine Bibliothekarin. Antworte auf {target_language}.
"""
FINAL_KEYS = (
    "extracted_text", "images_archive_url", "pages_archive_url", "mistral_ocr_raw_url",
    "mistral_ocr_raw_metadata", "mistral_ocr_raw", "transcription", "text", "result",
)  # fmt: skip


@dataclass
class ClientJob:
    """A job of the application, with everything it has stored for it."""

    kind: Literal["document", "recording"]
    callback_url: str
    token: str
    process_id: str | None = None
    status: str = "queued"
    error: Mapping[str, Any] | None = None
    text: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    raw: dict[str, Any] | None = None
    structured_data: dict[str, Any] | None = None
    chunks: list[Any] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    #: What each event was answered with.
    answers: list[tuple[int, str]] = field(default_factory=list)

    @property
    def fields(self) -> dict[str, str]:
        return {"callback_url": self.callback_url, "callback_token": self.token}

    @property
    def finals(self) -> list[tuple[int, str]]:
        return [answer for answer in self.answers if answer[1] not in ("progress", "ignored")]

    def wait(self, *, seconds: float = 60) -> "ClientJob":
        """Wait until it has ended; the application's work must have succeeded."""
        wait_until(lambda: self.status in ("completed", "failed"), seconds=seconds, what="the end")
        if self.status == "failed":
            raise ClientFailure(f"{self.error} after {self.answers}")
        return self


class Application:
    """Holds the jobs of the application and receives their events."""

    def __init__(self, calls: Calls, url: str = "") -> None:
        self.calls = calls
        self.url = url
        self.jobs: dict[str, ClientJob] = {}
        #: How long the work of its own takes besides the calls.
        self.work_seconds = 0.0
        self._lock = threading.Lock()

    def new_job(self, kind: Literal["document", "recording"]) -> ClientJob:
        job_id = str(uuid.uuid4())
        job = ClientJob(kind, f"{self.url}/api/external/jobs/{job_id}", new_token())
        self.jobs[job_id] = job
        return job

    def submit(self, job: ClientJob, path: str, file: File, **fields: str) -> httpx.Response:
        """Submit it, or submit it anew with another token."""
        job.token = new_token()
        return self.calls.submit(path, file, **fields, **job.fields)

    def receive(self, job_id: str, headers: Mapping[str, str], event: Any) -> tuple[int, str]:
        job = self.jobs.get(job_id)
        if job is None:
            return 404, "unknown"
        with self._lock:
            answer = self._check(job, headers, event)
        if answer is None:
            answer = self._judge(job, event)
        job.events.append(event)
        job.answers.append(answer)
        return answer

    def _check(
        self, job: ClientJob, headers: Mapping[str, str], event: Any
    ) -> tuple[int, str] | None:
        data = event.get("data") or {}
        process_id = (event.get("process") or {}).get("id") or data.get("processId")
        if job.process_id and process_id and process_id != job.process_id:
            return 200, "ignored"
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        token = event.get("callback_token") or headers.get("x-callback-token") or bearer
        if token != job.token:
            return 401, "token"
        job.process_id = job.process_id or process_id
        return None

    def _judge(self, job: ClientJob, event: Mapping[str, Any]) -> tuple[int, str]:
        data = event.get("data") or {}
        job.status = "running"
        if event.get("error") is not None or event.get("phase") == "error":
            job.error, job.status, job.process_id = event.get("error"), "failed", None
            return 200, "failed"
        is_final = event.get("status") == "completed" or event.get("phase") in (
            "completed",
            "template_completed",
        )
        if not is_final and not any(data.get(key) for key in FINAL_KEYS):
            candidates = (event.get("progress"), data.get("progress"), event.get("percent"))
            numbers = [each for each in candidates if isinstance(each, int | float)]
            if not numbers:
                return 400, "no progress"
            return 200, "progress"
        try:
            self._store(job, event, data)
        except (ClientFailure, httpx.HTTPError, KeyError, TypeError, ValueError) as failure:
            job.error, job.status = {"message": repr(failure)}, "failed"
            return 500, "failed_ingestion"
        job.status = "completed"
        return 200, "final"

    def _store(self, job: ClientJob, event: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        metadata = data.get("metadata") or {}
        if "chapters" in metadata or "pages" in metadata:
            raise ClientFailure("metadata counts as the analysis: the template is skipped")
        job.text = self._text_of(job, data)
        if not job.text:
            raise ClientFailure("no text: the job would stay running")
        if data.get("mistral_ocr_raw_url") or data.get("mistral_ocr_raw_metadata"):
            job.raw = self.calls.raw_ocr(event["process"]["id"])
        for name in ("mistral_ocr_images_url", "pages_archive_url", "images_archive_url"):
            if data.get(name) and (name != "images_archive_url" or not job.files):
                job.files |= archive(self.calls.download(data[name]))
        time.sleep(self.work_seconds)
        context = {"fileName": "a.pdf", "knownNames": ["Ada"], "availableMedia": []}
        job.structured_data = self.calls.apply_template(job.text, TEMPLATE, context=context)
        job.chunks = self.calls.embed_document(job.text, document_id=str(job.process_id))

    @staticmethod
    def _text_of(job: ClientJob, data: Mapping[str, Any]) -> str:
        if job.kind == "document":
            return data.get("extracted_text") or ""
        transcription, result = data.get("transcription"), data.get("result")
        candidates = [
            transcription.get("text") if isinstance(transcription, dict) else transcription,
            result if isinstance(result, str) else None,
            *([result.get("markdown"), result.get("text")] if isinstance(result, dict) else []),
            data.get("text"),
            data.get("extracted_text"),
        ]
        return next((each for each in candidates if each), "")


@contextmanager
def running_application(calls: Calls) -> Iterator[Application]:
    application = Application(calls)
    with answering(partial(_Endpoint, application)) as url:
        application.url = url
        yield application


class _Endpoint(BaseHTTPRequestHandler):
    def __init__(self, application: Application, *arguments: Any) -> None:
        self.application = application
        super().__init__(*arguments)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, kind = self.application.receive(self.path.rpartition("/")[2], headers, body)
        answer = json.dumps({"status": "ok" if status == 200 else "error", "kind": kind}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass
