"""Waits for jobs to end, showing how far they are."""

import asyncio
from collections.abc import Sequence

from .meter import Meter, meter
from .options import Where
from .output import complain
from .place import Document, Place, Status

#: A worker takes a job within milliseconds; a job that waits for longer may wait in vain.
WONDER_AFTER = 2.0


async def wait_for(where: Where, place: Place, jobs: Sequence[Document]) -> list[Document]:
    """The jobs when all have ended. Whoever interrupts this is told that they go on."""
    wondering = asyncio.create_task(_wonder(where, place, jobs[0]["job_id"]))
    tasks: list[asyncio.Task[Document]] = []
    try:
        with meter(lines=True) as show:
            tasks += [asyncio.create_task(_follow(place, job, show)) for job in jobs]
            return await asyncio.gather(*tasks)
    except asyncio.CancelledError:
        ids = " ".join(job["job_id"] for job in jobs)
        complain(
            f"{'It goes' if len(jobs) == 1 else 'They go'} on without you."
            f"\nFollow: secretary jobs watch {ids}{where.again()}"
            f"\nStop:   secretary jobs cancel {ids}{where.again()}"
        )
        raise
    finally:
        for task in (wondering, *tasks):
            task.cancel()
        await asyncio.gather(wondering, *tasks, return_exceptions=True)


async def _follow(place: Place, job: Document, show: Meter) -> Document:
    complain(f"{job['job_id']} is handed in")
    with show.job(job["job_name"] or job["job_type"], job["job_id"]) as tell:
        return await place.follow(job["job_id"], tell)


async def _wonder(where: Where, place: Place, job_id: str) -> None:
    await asyncio.sleep(WONDER_AFTER)
    job = await place.job(job_id)
    if job["status"] == Status.PENDING and not await place.has_workers():
        complain(
            "No worker is running, so the job waits. Start one in another terminal:"
            " secretary worker (with the same --data-dir and --config)"
            if where.service is None
            else "No worker is running there, so the job waits until one is started."
        )
