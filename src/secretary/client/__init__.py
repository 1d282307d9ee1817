"""The Python client: submit jobs, wait for them and read their results."""

from .aio import AsyncClient
from .connection import Retries
from .errors import (
    ApiError,
    ClientError,
    JobCancelled,
    JobFailed,
    NotFound,
    Unreachable,
    WaitTimeout,
    WebhookRefused,
)
from .jobs import AsyncBatch, AsyncJob
from .models import (
    BatchDocument,
    ErrorDocument,
    Event,
    Health,
    JobDocument,
    JobType,
    LogEntry,
    Progress,
    Results,
)
from .requests import Task
from .sync import Batch, Client, Job
from .webhook import WebhookEvent, verify_webhook

__all__ = [
    "ApiError", "AsyncBatch", "AsyncClient", "AsyncJob", "Batch", "BatchDocument", "Client",
    "ClientError", "ErrorDocument", "Event", "Health", "Job", "JobCancelled", "JobDocument",
    "JobFailed", "JobType", "LogEntry", "NotFound", "Progress", "Results", "Retries", "Task",
    "Unreachable", "WaitTimeout", "WebhookEvent", "WebhookRefused", "verify_webhook",
]  # fmt: skip
