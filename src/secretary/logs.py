"""Logging: one line a record on standard error, with the job it belongs to."""

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

#: The job that the code now running works for.
current_job: ContextVar[str | None] = ContextVar("current_job", default=None)
#: The trace that job belongs to.
current_trace: ContextVar[str | None] = ContextVar("current_trace", default=None)


def set_up(level: str, *, as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_add_job)
    handler.setFormatter(_JsonLines() if as_json else _Lines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("pymongo").setLevel("WARNING")


def _add_job(record: logging.LogRecord) -> bool:
    record.job_id = current_job.get()
    record.trace_id = current_trace.get()
    return True


class _Lines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(job)s%(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        job_id = getattr(record, "job_id", None)  # another library's handler has no filter
        record.job = f"[{job_id}] " if job_id else ""
        return super().format(record)


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "job_id": getattr(record, "job_id", None),
            "trace_id": getattr(record, "trace_id", None),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),  # what a record tells beside its sentence
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
