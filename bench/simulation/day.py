"""Who hands in what in the course of a day, the same for the same seed."""

import random
from dataclasses import dataclass

HOUR = 3600.0
#: Users who hand in a PDF now and then, from eight to eighteen.
CLERKS = ("anna", "ben", "carla", "deniz", "emil", "fritz")
MINUTES_BETWEEN = 4.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job: when it comes, in seconds of the day, and how long it takes to do."""

    at_s: float
    user: str
    job_type: str
    work_s: float


def mixed_day(seed: int, *, size: float = 1.0) -> list[Arrival]:
    """A day with all that gets in each other's way; `size` makes fewer jobs of it."""
    chance = random.Random(seed)
    day = [
        *_conference(chance, int(500 * size), at=9 * HOUR),
        *_burst(chance, int(10_000 * size), at=10.5 * HOUR),
        *_recordings(chance, max(int(24 * size), 1)),
        *(job for clerk in CLERKS for job in _trickle(chance, clerk, size)),
        # Who has one job, in the middle of what others have.
        Arrival(9.1 * HOUR, "guest", "session", 90.0),
        Arrival(10.6 * HOUR, "guest", "pdf", 8.0),
        Arrival(11.0 * HOUR, "guest", "audio", 300.0),
    ]
    return sorted(day, key=lambda job: (job.at_s, job.user))


def _conference(chance: random.Random, count: int, *, at: float) -> list[Arrival]:
    """A whole programme, handed in as one batch."""
    return [Arrival(at, "conference", "session", chance.uniform(60, 240)) for _ in range(count)]


def _burst(chance: random.Random, count: int, *, at: float) -> list[Arrival]:
    """Small jobs of one user, as fast as a script can hand them in."""
    return [
        Arrival(at + number / 200, "script", "pdf", chance.uniform(1, 3)) for number in range(count)
    ]


def _recordings(chance: random.Random, count: int) -> list[Arrival]:
    return [
        Arrival(chance.uniform(8, 18) * HOUR, "radio", "audio", chance.uniform(300, 1500))
        for _ in range(count)
    ]


def _trickle(chance: random.Random, user: str, size: float) -> list[Arrival]:
    jobs, at = [], 8 * HOUR
    while (at := at + chance.expovariate(size / (MINUTES_BETWEEN * 60))) < 18 * HOUR:
        jobs.append(Arrival(at, user, "pdf", chance.uniform(3, 30)))
    return jobs
