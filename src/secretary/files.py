"""The files of jobs in a local directory, apart for each attempt."""

import asyncio
import shutil
from pathlib import Path

from .job import Job


class JobFiles:
    """`jobs/<job_id>/<attempt>/`: an attempt writes to its own directory, and the job's final
    state names the attempt that counts. So a worker that lost the job cannot spoil the results."""

    def __init__(self, data_directory: Path) -> None:
        self.root = data_directory / "jobs"

    def of_attempt(self, job: Job) -> Path:
        return self.root / job.job_id / str(job.attempt)

    async def keep_only(self, job: Job) -> None:
        """The job completed: what its earlier attempts left is of no use."""
        if (self.root / job.job_id).exists():
            await asyncio.to_thread(self._remove_attempts_except, job)

    async def discard(self, job: Job) -> None:
        """This attempt came to nothing."""
        directory = self.of_attempt(job)
        if directory.exists():
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    async def remove(self, job_id: str) -> None:
        if (self.root / job_id).exists():
            await asyncio.to_thread(shutil.rmtree, self.root / job_id, ignore_errors=True)

    def _remove_attempts_except(self, job: Job) -> None:
        for directory in (self.root / job.job_id).iterdir():
            if directory.name != str(job.attempt):
                shutil.rmtree(directory, ignore_errors=True)
