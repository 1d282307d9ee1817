"""Documents and recordings in, clean Markdown out: durable jobs behind one HTTP API."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .core.errors import JobFailed, SecretaryError
from .version import __version__

if TYPE_CHECKING:
    from .core.job import Batch, Job, JobStatus
    from .jobs.handler import JobContext, Registry, handles

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

#: Loaded when someone asks: the processes that read pages need none of it, and start twice as
#: fast and 10 MB smaller without.
_LATER = {
    "Batch": "core.job",
    "Job": "core.job",
    "JobContext": "jobs.handler",
    "JobStatus": "core.job",
    "Registry": "jobs.handler",
    "handles": "jobs.handler",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LATER[name]}", __name__), name)
