"""Jobs and batches of the service before this one, as they come to this one."""

from .documents import Running, batch_of, job_of
from .importing import Importer, KindReport, LegacyReport
from .values import Unreadable

__all__ = ["Importer", "KindReport", "LegacyReport", "Running", "Unreadable", "batch_of", "job_of"]
