"""What upkeep does in the course of a day, at once: run as a process that lives a day later.

`python -m tests.chaos.sweep`, with the environment of a worker.
"""

import asyncio

from secretary.app import make_files, make_worker, opened_store
from secretary.config import load


async def sweep() -> None:
    settings = load()
    async with opened_store(settings) as store:
        maintenance = make_worker(settings, store).maintenance
        await maintenance.prune()
        await store.tidy()
        await maintenance.sweep_uploads()
        await maintenance.prune_cache()
        await maintenance.clear_this_machine()
        blob_store = make_files(settings, store).blob_store
        if blob_store is not None:
            await maintenance.look_through_depot(blob_store)


if __name__ == "__main__":
    asyncio.run(sweep())
