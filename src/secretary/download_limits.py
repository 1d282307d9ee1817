"""What an operator decides about downloads."""

from dataclasses import dataclass
from datetime import timedelta

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    max_bytes: int = 1024 * MEBIBYTE
    total: timedelta = timedelta(minutes=15)
    idle: timedelta = timedelta(seconds=30)
    max_redirects: int = 5
