"""Outgoing HTTP that cannot reach private addresses: address rules, a client, downloads."""

from dataclasses import dataclass
from datetime import timedelta

DOWNLOAD_MAX_MB = 1024
DOWNLOAD_TIMEOUT_SEC = 900.0


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    max_bytes: int = DOWNLOAD_MAX_MB * 1024 * 1024
    total: timedelta = timedelta(seconds=DOWNLOAD_TIMEOUT_SEC)
    idle: timedelta = timedelta(seconds=30)
    max_redirects: int = 5
