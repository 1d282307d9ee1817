"""Logging: one line per record on standard error, with the job it belongs to."""

import json
import logging
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TextIO

#: The job that the current code works for.
current_job: ContextVar[str | None] = ContextVar("current_job", default=None)
#: The trace of that job.
current_trace: ContextVar[str | None] = ContextVar("current_trace", default=None)

#: Control characters other than tabs and line breaks, and marks that change the text direction.
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

#: Libraries that log the URLs of requests, secrets included.
QUIET_LOGGERS = ("pymongo", "httpx", "httpcore", "httpx2", "httpcore2", "openai")


def configure_logging(level: str, *, as_json: bool) -> None:
    handlers = [log_handler(sys.stderr, as_json=as_json)]
    logging.basicConfig(level=level.upper(), handlers=handlers, force=True)
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel("WARNING")


def log_handler(stream: TextIO, *, as_json: bool) -> logging.Handler:
    """A handler that writes records as lines to a stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_JsonLines() if as_json else _Lines())
    return handler


class _Lines(logging.Formatter):
    """Messages may contain text from clients: further lines are indented, so that nobody can forge
    a record, and control characters are escaped, so that nobody can control a terminal."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(job)s%(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        job_id = current_job.get()
        record.job = f"[{job_id}] " if job_id else ""
        text = CONTROL.sub(lambda match: ascii(match[0])[1:-1], super().format(record))
        return "\n    ".join(text.splitlines())


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "job_id": current_job.get(),
            "trace_id": current_trace.get(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),  # structured fields of the record
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
