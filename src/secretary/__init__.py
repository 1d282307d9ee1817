"""Documents and recordings in, clean Markdown out: durable jobs behind one HTTP API."""

from .errors import JobFailed, SecretaryError
from .handler import JobContext, handles
from .job import Batch, Job, JobStatus
from .registry import Registry
from .version import __version__

__all__ = [
    "Batch",
    "Job",
    "JobContext",
    "JobFailed",
    "JobStatus",
    "Registry",
    "SecretaryError",
    "__version__",
    "handles",
]
