"""Secretary with its handlers in child processes, the default, on MongoDB where it is given a
server, else on SQLite."""

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import secretary_extra
from peer import Job, Peer, Submit

import secretary
from secretary.config import Settings, StorageSettings
from secretary.store import Store, open_store

URL = os.environ.get("BENCH_URL")
DIRECTORY = Path(os.environ["BENCH_DIR"])
STORE_URL = Settings(storage=StorageSettings(data_dir=DIRECTORY, mongodb_uri=URL)).store_url
SLOTS = 16


@asynccontextmanager
async def opened_store() -> AsyncIterator[Store]:
    store = open_store(STORE_URL)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def client() -> AsyncIterator[Submit]:
    async with opened_store() as store:

        async def submit(job: Job, sent: int) -> None:
            await store.add([secretary.Job(job_type=job, parameters={"sent": sent})])

        yield submit


async def extra() -> Mapping[str, float]:
    async with opened_store() as store:
        return await secretary_extra.figures(store, STORE_URL)


def worker(slots: int) -> tuple[str, ...]:
    command = (sys.executable, "-m", "secretary", "worker", "--data-dir", str(DIRECTORY))
    return (*command, "--slots", str(slots))


def worker_env(handlers: str) -> dict[str, str]:
    return {"SECRETARY_HANDLERS": handlers} | ({"MONGODB_URI": URL} if URL else {})


PEER = Peer(
    version=secretary.__version__,
    runs_as=f"1 process with {SLOTS} child processes, in which the handlers run",
    durable=True,
    worker=worker(SLOTS),
    worker_env=worker_env("secretary_handlers:register"),
    client=client,
    extra=extra,
)
