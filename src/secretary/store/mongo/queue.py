"""Queues of pending jobs, and the positions of jobs in them."""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pymongo import UpdateOne

from ...core.job import utc_now
from ..claims import JobClass
from .rows import QUEUE_FIELDS, moment, now_stamp, stamp
from .schema import Database, Document

#: Scheduled jobs that are due enter their queue in batches of this size.
MAX_PROMOTED = 1000

UserQueue = tuple[str, str | None]


def queue_name(job_type: str, priority: int) -> str:
    return f"{job_type}/{priority}"


def class_of(queue: str) -> JobClass:
    job_type, _, priority = queue.rpartition("/")
    return job_type, int(priority)


class QueuePositions:
    """Assigns queue positions.

    A new job goes behind the last one of the same user, or to the head of the queue if the user
    has none: this serves users in turn (start-time fair queueing, with the head of the queue as
    its clock). Nothing is locked: jobs that get the same position are ordered by arrival.
    """

    def __init__(self, db: Database) -> None:
        self._jobs = db.jobs
        self._last: dict[UserQueue, int | None] = {}
        self._heads: dict[str, int] = {}

    async def load(self, user_queues: Iterable[UserQueue]) -> None:
        """Load where these user queues end, before positions in them are assigned."""
        new = set(user_queues) - self._last.keys()
        queues = {queue for queue, _ in new} - self._heads.keys()
        await asyncio.gather(*map(self._load_last, new), *map(self._load_head, queues))

    def next_position(self, user_queue: UserQueue) -> int:
        last = self._last[user_queue]
        position = self.head_position(user_queue[0]) if last is None else last + 1
        self._last[user_queue] = position
        return position

    def head_position(self, queue: str) -> int:
        """The position of the head; jobs with the same position are ordered by arrival."""
        return self._heads[queue]

    async def _load_last(self, user_queue: UserQueue) -> None:
        self._last[user_queue] = (
            await self._jobs.find_one(**last_of_user_queue(user_queue)) or {}
        ).get("turn")

    async def _load_head(self, queue: str) -> None:
        head = await self._jobs.find_one(**head_of_queue(queue))
        self._heads[queue] = head["turn"] if head else 0


def last_of_user_queue(user_queue: UserQueue) -> Document:
    return {
        "filter": {"line": user_queue[0], "user_id": user_queue[1]},
        "projection": {"_id": 0, "turn": 1},
        "sort": [("turn", -1)],
        "hint": "lane",
    }


def head_of_queue(queue: str) -> Document:
    return {
        "filter": {"line": queue},
        "projection": {"_id": 0, "turn": 1},
        "sort": [("turn", 1), ("arrival", 1)],
        "hint": "line",
    }


async def waiting_since(db: Database) -> dict[str, datetime]:
    """Since when the heads of the queues have been ready, by type."""
    queues = await db.jobs.distinct("line", {"line": {"$gt": ""}})
    heads = await asyncio.gather(*(db.jobs.find_one(**head_waits_since(queue)) for queue in queues))
    since: dict[str, datetime] = {}
    for queue, head in zip(queues, heads, strict=True):
        if head is not None:
            at = moment(max(head["updated_at"], head.get("run_at", "")))
            job_type, _ = class_of(queue)
            since[job_type] = min(at, since.get(job_type, at))
    return since


def head_waits_since(queue: str) -> Document:
    """A pending job was last updated when it became pending, but may have been scheduled for
    later."""
    return head_of_queue(queue) | {"projection": {"_id": 0, "updated_at": 1, "run_at": 1}}


class Placements:
    """Queue fields of jobs that become pending, loaded for many jobs in few round trips."""

    def __init__(self, db: Database) -> None:
        self._positions = QueuePositions(db)
        self._now = utc_now()

    async def load(self, user_queues: Iterable[tuple[str, int, str | None]]) -> None:
        await self._positions.load(
            (queue_name(job_type, n), user_id) for job_type, n, user_id in user_queues
        )

    def for_job(
        self,
        job_type: str,
        priority: int,
        user_id: str | None,
        *,
        run_at: datetime | None = None,
        paused: bool = False,
        interrupted: bool = False,
    ) -> Document:
        """An interrupted job goes to the head of its queue: it has waited before."""
        if paused:
            return {"held": True}
        if run_at is not None and run_at > self._now:
            return {"due_at": stamp(run_at)}
        queue = queue_name(job_type, priority)
        if interrupted:
            return {"line": queue, "turn": self._positions.head_position(queue)}
        return {"line": queue, "turn": self._positions.next_position((queue, user_id))}


def queue_update(placement: Document, **fields: Any) -> Document:
    """The update that sets a job's queue fields (none if it is not pending) and other fields.

    A field set to None is removed.
    """
    values = dict.fromkeys(QUEUE_FIELDS) | placement | fields
    update: Document = {"$set": {name: v for name, v in values.items() if v is not None}}
    removed = {name: "" for name, value in values.items() if value is None}
    return update | ({"$unset": removed} if removed else {})


async def promote(db: Database) -> None:
    """Move scheduled jobs that are due into their queues."""
    due = await db.jobs.find(**due_jobs(now_stamp())).to_list()
    if not due:
        return
    placements = Placements(db)
    await placements.load((job["job_type"], job["priority"], job.get("user_id")) for job in due)
    await db.jobs.bulk_write(
        [
            UpdateOne(
                {"_id": job["_id"], "status": "pending", "due_at": {"$exists": True}},
                queue_update(
                    placements.for_job(job["job_type"], job["priority"], job.get("user_id"))
                ),
            )
            for job in due
        ]
    )


def due_jobs(now: str) -> Document:
    return {
        "filter": {"due_at": {"$lte": now}},
        "projection": {"job_type": 1, "priority": 1, "user_id": 1},
        "sort": [("due_at", 1), ("arrival", 1)],
        "limit": MAX_PROMOTED,
        "hint": "due",
    }
