"""Tells waiting tasks that there is news, from this process and from all others."""

import asyncio
import logging
import random

from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from ..news import News
from .schema import Database, Document

logger = logging.getLogger(__name__)

#: How long who waits may sleep while nobody tells of other processes' news.
POLL_SECONDS = 0.5
REOPEN_SECONDS = 2.0

NO_REPLICA_SET = 40573
#: Out of time, no majority yet, a primary that is just going.
NOT_NOW = (50, 134, 189, 262, 11602)

#: Changes that give a worker something to claim or to cancel. Only their ids are sent.
NEWS: list[Document] = [
    {
        "$match": {
            "$or": [
                {"fullDocument.line": {"$exists": True}},
                {"updateDescription.updatedFields.line": {"$exists": True}},
                {"updateDescription.updatedFields.due_at": {"$exists": True}},
                {"updateDescription.updatedFields.cancel_requested": True},
            ]
        }
    },
    {"$project": {"_id": 1}},
]


class Watch(News):
    """A change stream brings the news of other processes; it is a hint only: without one (a
    standalone server, a stream that broke) who waits polls."""

    def __init__(self, db: Database) -> None:
        super().__init__()
        self._jobs = db.jobs.with_options(read_concern=ReadConcern("majority"))
        self._stream: AsyncChangeStream[Document] | None = None
        self._task: asyncio.Task[None] | None = None
        #: The server gives no change streams, to nobody and never.
        self.refused = False

    async def open(self) -> None:
        try:
            self._stream = await self._jobs.watch(NEWS)
        except OperationFailure as error:
            self.refused = error.code not in NOT_NOW
            if error.code == NO_REPLICA_SET:
                logger.info("MongoDB is no replica set: new jobs are found by polling")
            else:
                logger.warning("MongoDB gives no change stream, new jobs are polled: %s", error)
        else:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        while self._task is not None and not self._task.done():
            self._task.cancel()  # again and again: the driver may swallow it (see calls.py)
            await asyncio.wait({self._task}, timeout=0.1)

    async def wait(self, since: int, *, seconds: float) -> int:
        longest = seconds if self._stream is not None else min(seconds, POLL_SECONDS)
        return await super().wait(since, seconds=longest)

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except PyMongoError as error:
                logger.warning("The change stream on jobs broke, will open it again: %s", error)
            finally:
                self._stream = None
            await asyncio.sleep(random.uniform(0.5, 1) * REOPEN_SECONDS)

    async def _listen(self) -> None:
        stream = self._stream or await self._jobs.watch(NEWS)
        async with stream:
            self._stream = stream
            self.tell()  # of what happened before
            async for _ in stream:
                self.tell()
