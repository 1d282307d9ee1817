"""Names that other programs import stay where they are."""

import importlib

import pytest

ERRORS = (
    "AccessDenied", "Conflict", "DownloadFailed", "EngineUnavailable", "FileCorrupt",
    "FileEncrypted", "FileTooLarge", "InvalidParameters", "JobFailed", "NotFound", "OutOfMemory",
    "ProcessingTimeout", "SecretaryError", "StoreUnavailable", "UnknownJobType", "UnsupportedFile",
    "UpstreamFailed", "WorkerCrashed",
)  # fmt: skip
CLIENT = (
    "ApiError", "AsyncBatch", "AsyncClient", "AsyncJob", "Batch", "BatchDocument", "Client",
    "ClientError", "ErrorDocument", "Event", "Health", "Job", "JobCancelled", "JobDocument",
    "JobFailed", "JobType", "LogEntry", "NotFound", "Progress", "Results", "Retries", "Task",
    "Unreachable", "WaitTimeout", "WebhookEvent", "WebhookRefused", "verify_webhook",
)  # fmt: skip
HANDLERS = (
    "Batch", "Job", "JobContext", "JobFailed", "JobStatus", "Registry", "SecretaryError",
    "__version__", "handles",
)  # fmt: skip
PUBLIC = {"secretary": HANDLERS, "secretary.errors": ERRORS, "secretary.client": CLIENT}


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_can_be_imported(module: str) -> None:
    imported = importlib.import_module(module)
    assert [name for name in PUBLIC[module] if not hasattr(imported, name)] == []
