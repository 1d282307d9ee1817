"""Who is next: the lines in which pending jobs wait, and the places they get there."""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pymongo import UpdateOne

from ...core.job import utc_now
from ..scheduling import JobClass
from .rows import PLACE, moment, now_stamp, stamp
from .schema import Database, Document

#: Jobs whose time has come are moved into the line in bounded steps.
MAX_PROMOTED = 1000

Lane = tuple[str, str | None]


def line_of(job_type: str, priority: int) -> str:
    return f"{job_type}/{priority}"


def class_of(line: str) -> JobClass:
    job_type, _, priority = line.rpartition("/")
    return job_type, int(priority)


class Line:
    """Gives out places in the lines.

    A new job stands behind the last one of the same user, but not further back than the
    head of the line for a user who has none: so users are served in turn (start-time fair
    queueing, with the head of the line as its clock). Nothing is locked: when two processes
    give out the same place, the jobs go in the order of their arrival.
    """

    def __init__(self, db: Database) -> None:
        self._jobs = db.jobs
        self._last: dict[Lane, int | None] = {}
        self._heads: dict[str, int] = {}

    async def look_up(self, lanes: Iterable[Lane]) -> None:
        """Learn where these lanes end; to be done before a turn in them is asked for."""
        new = set(lanes) - self._last.keys()
        lines = {line for line, _ in new} - self._heads.keys()
        await asyncio.gather(*map(self._learn_last, new), *map(self._learn_head, lines))

    def next_turn(self, lane: Lane) -> int:
        last = self._last[lane]
        turn = self.first_turn(lane[0]) if last is None else last + 1
        self._last[lane] = turn
        return turn

    def first_turn(self, line: str) -> int:
        """That of the head of the line; who arrived before it stands before it."""
        return self._heads[line]

    async def _learn_last(self, lane: Lane) -> None:
        self._last[lane] = (await self._jobs.find_one(**last_of_lane(lane)) or {}).get("turn")

    async def _learn_head(self, line: str) -> None:
        head = await self._jobs.find_one(**head_of_line(line))
        self._heads[line] = head["turn"] if head else 0


def last_of_lane(lane: Lane) -> Document:
    return {
        "filter": {"line": lane[0], "user_id": lane[1]},
        "projection": {"_id": 0, "turn": 1},
        "sort": [("turn", -1)],
        "hint": "lane",
    }


def head_of_line(line: str) -> Document:
    return {
        "filter": {"line": line},
        "projection": {"_id": 0, "turn": 1},
        "sort": [("turn", 1), ("arrival", 1)],
        "hint": "line",
    }


async def waiting_since(db: Database) -> dict[str, datetime]:
    """Since when the heads of the lines stand there, by type."""
    lines = await db.jobs.distinct("line", {"line": {"$gt": ""}})
    heads = await asyncio.gather(*(db.jobs.find_one(**head_waits_since(line)) for line in lines))
    since: dict[str, datetime] = {}
    for line, head in zip(lines, heads, strict=True):
        if head is not None:
            at = moment(max(head["updated_at"], head.get("run_at", "")))
            job_type, _ = class_of(line)
            since[job_type] = min(at, since.get(job_type, at))
    return since


def head_waits_since(line: str) -> Document:
    """A pending job was changed last when it became pending; it may have had to wait for its
    time."""
    return head_of_line(line) | {"projection": {"_id": 0, "updated_at": 1, "run_at": 1}}


class Places:
    """The places of jobs that become pending, found out for all of them in few round trips."""

    def __init__(self, db: Database) -> None:
        self._line = Line(db)
        self._now = utc_now()

    async def look_up(self, lanes: Iterable[tuple[str, int, str | None]]) -> None:
        await self._line.look_up((line_of(job_type, n), user_id) for job_type, n, user_id in lanes)

    def place(
        self,
        job_type: str,
        priority: int,
        user_id: str | None,
        *,
        run_at: datetime | None = None,
        held: bool = False,
        broke_off: bool = False,
    ) -> Document:
        """A job that broke off by no fault of its own has waited enough: it is the next."""
        if held:
            return {"held": True}
        if run_at is not None and run_at > self._now:
            return {"due_at": stamp(run_at)}
        line = line_of(job_type, priority)
        if broke_off:
            return {"line": line, "turn": self._line.first_turn(line)}
        return {"line": line, "turn": self._line.next_turn((line, user_id))}


def placed(place: Document, **fields: Any) -> Document:
    """The update that gives a job this place (none: it is not pending) and sets these fields.

    A field set to None is removed.
    """
    values = dict.fromkeys(PLACE) | place | fields
    update: Document = {"$set": {name: v for name, v in values.items() if v is not None}}
    removed = {name: "" for name, value in values.items() if value is None}
    return update | ({"$unset": removed} if removed else {})


async def promote(db: Database) -> None:
    """Put jobs into the line whose time has come."""
    due = await db.jobs.find(**due_jobs(now_stamp())).to_list()
    if not due:
        return
    places = Places(db)
    await places.look_up((job["job_type"], job["priority"], job.get("user_id")) for job in due)
    await db.jobs.bulk_write(
        [
            UpdateOne(
                {"_id": job["_id"], "status": "pending", "due_at": {"$exists": True}},
                placed(places.place(job["job_type"], job["priority"], job.get("user_id"))),
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
