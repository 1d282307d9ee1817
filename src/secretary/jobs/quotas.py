"""Quotas: what each user may use, and whether new jobs fit into it.

A quota belongs to the owner of a job. Jobs without a user have none.
"""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime

from ..config import MEBIBYTE, QuotaLimits, QuotaSettings
from ..core.errors import QuotaExceeded
from ..core.job import Job, utc_now
from ..store import JobCharge, Usage, UsageStore
from ..store.stats import end_of_day, quota_exceeded

NO_QUOTAS = QuotaSettings()

#: The size of a user's files is cached for this many times as long as it took to sum up.
CACHE_FACTOR = 20
MAX_CACHED_USERS = 1000


@dataclass(frozen=True, slots=True)
class QuotaReport:
    """What a user may use and has used today."""

    user_id: str
    limits: QuotaLimits
    usage: Usage
    stored_bytes: int
    resets_at: datetime

    def figures(self) -> dict[str, tuple[float, float]]:
        """What is used and its limit, by unit; a limit of 0 means unlimited."""
        usage, limits = self.usage, self.limits
        return {
            "jobs": (usage.jobs, limits.jobs_per_day),
            "pages": (usage.pages, limits.pages_per_day),
            "audio_minutes": (_audio_minutes(usage), limits.audio_minutes_per_day),
            "stored_bytes": (self.stored_bytes, limits.stored_mb * MEBIBYTE),
        }


@dataclass(slots=True)
class _StoredBytes:
    size: int
    expires_at: float


class Quotas:
    """The quotas of all users; without settings there are none."""

    def __init__(self, settings: QuotaSettings = NO_QUOTAS) -> None:
        self.settings = settings
        self.enabled = settings.enabled
        self._stored: dict[str, _StoredBytes] = {}

    async def charges(
        self, store: UsageStore, jobs: Iterable[Job], *, restarted: bool = False
    ) -> list[JobCharge]:
        """What these jobs count for their users; nothing while there are no quotas. The files of
        restarted jobs are stored already."""
        if not self.enabled:
            return []
        numbers: Counter[str] = Counter()
        new_bytes: Counter[str] = Counter()
        for job in jobs:
            if job.user_id is not None:
                numbers[job.user_id] += 1
                new_bytes[job.user_id] += 0 if restarted else job.stored_bytes or 0
        day = utc_now().date()
        charges: list[JobCharge] = []
        for user, number in numbers.items():
            limits = self.settings.limits_of(user)
            refusal = await self._refusal(store, user, day, new_bytes[user])
            charges.append(JobCharge(user, day, number, limits.jobs_per_day or None, refusal))
        return charges

    async def _refusal(
        self, store: UsageStore, user: str, day: date, new_bytes: int
    ) -> QuotaExceeded | None:
        """The quota that is used up, except the number of jobs, which the store checks. Pages and
        minutes are known only after a job has run, so the last one may exceed them."""
        limits = self.settings.limits_of(user)
        if limits.pages_per_day or limits.audio_minutes_per_day:
            used, resets_at = await store.usage(day, user), end_of_day(day)
            pages, minutes = used.pages, _audio_minutes(used)
            if pages >= limits.pages_per_day > 0:
                return quota_exceeded(
                    "pages_per_day", limits.pages_per_day, pages, resets_at=resets_at
                )
            if minutes >= limits.audio_minutes_per_day > 0:
                limit = limits.audio_minutes_per_day
                return quota_exceeded("audio_minutes_per_day", limit, minutes, resets_at=resets_at)
        if limits.stored_mb:
            stored = await self._stored_bytes(store, user)
            room = limits.stored_mb * MEBIBYTE - stored.size
            if room <= 0 or new_bytes > room:
                used_mb, new_mb = (round(n / MEBIBYTE, 3) for n in (stored.size, new_bytes))
                return quota_exceeded("stored_mb", limits.stored_mb, used_mb, requested=new_mb)
            stored.size += new_bytes  # for requests that are checked before it is read again
        return None

    async def _stored_bytes(self, store: UsageStore, user: str) -> _StoredBytes:
        """Summing up takes longer the more jobs a user has, so it is done less often."""
        cached = self._stored.get(user)
        if cached is not None and time.monotonic() < cached.expires_at:
            return cached
        started = time.monotonic()
        size = await store.stored_bytes(user)
        now = time.monotonic()
        if len(self._stored) >= MAX_CACHED_USERS:
            self._stored.clear()
        stored = _StoredBytes(size, now + (now - started) * CACHE_FACTOR)
        self._stored[user] = stored
        return stored

    def files_removed(self, user: str | None) -> None:
        """Sum up the files of a user again before the next request is refused."""
        if user is not None:
            self._stored.pop(user, None)

    async def report(self, store: UsageStore, user: str) -> QuotaReport:
        day = utc_now().date()
        return QuotaReport(
            user,
            self.settings.limits_of(user),
            await store.usage(day, user),
            await store.stored_bytes(user),
            end_of_day(day),
        )


def _audio_minutes(usage: Usage) -> float:
    return round(usage.audio_seconds / 60, 2)
