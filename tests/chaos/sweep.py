"""What upkeep does in the course of a day, at once: run as a process that lives a day later.

`python -m tests.chaos.sweep`, with the environment of a worker.
"""

import asyncio

from secretary.app import make_files, make_worker, opened_store
from secretary.config import load


async def sweep() -> None:
    settings = load()
    async with opened_store(settings) as store:
        upkeep = make_worker(settings, store).upkeep
        await upkeep.prune()
        await store.tidy()
        await upkeep.sweep_uploads()
        await upkeep.prune_cache()
        await upkeep.clear_this_machine()
        depot = make_files(settings, store).depot
        if depot is not None:
            await upkeep.look_through_depot(depot)


if __name__ == "__main__":
    asyncio.run(sweep())
