"""The files of jobs in a local directory, apart for each attempt."""

import asyncio
import os
import shutil
from pathlib import Path

from .job import Job


class JobFiles:
    """`jobs/<job_id>/<attempt>/`: an attempt writes to its own directory, and the job's final
    state names the attempt that counts. So a worker that lost the job cannot spoil the results."""

    def __init__(self, data_directory: Path) -> None:
        self.root = data_directory / "jobs"

    def of_attempt(self, job: Job) -> str:
        # Plain strings: this is asked for each job, and most need no files.
        return f"{self.root}/{job.job_id}/{job.attempt}"

    # Looking whether there is a directory takes a microsecond: not worth a thread for each job.

    async def keep_only(self, job: Job) -> None:
        """The job completed: what its earlier attempts left is of no use."""
        if os.path.exists(f"{self.root}/{job.job_id}"):  # noqa: ASYNC240
            await asyncio.to_thread(self._remove_attempts_except, job)

    async def discard(self, job: Job) -> None:
        """This attempt came to nothing."""
        directory = self.of_attempt(job)
        if os.path.exists(directory):  # noqa: ASYNC240
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    async def remove(self, job_id: str) -> None:
        if (self.root / job_id).exists():
            await asyncio.to_thread(shutil.rmtree, self.root / job_id, ignore_errors=True)

    def _remove_attempts_except(self, job: Job) -> None:
        for directory in (self.root / job.job_id).iterdir():
            if directory.name != str(job.attempt):
                shutil.rmtree(directory, ignore_errors=True)
