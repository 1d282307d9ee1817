"""Runs a day's maintenance at once, as a process whose clock is a day ahead.

`python -m tests.chaos.maintenance`, with the environment of a worker."""

import asyncio

from secretary.app import Application
from secretary.config import load


async def sweep() -> None:
    async with Application(load()) as app:
        maintenance = app.maintenance()
        await maintenance.prune()
        await app.store.tidy()
        await maintenance.sweep_uploads()
        await maintenance.prune_cache()
        await maintenance.clear_local_files()
        if app.blob_store is not None:
            await maintenance.sweep_blob_store(app.blob_store)


if __name__ == "__main__":
    asyncio.run(sweep())
