"""The program as a process, with access to its store."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from secretary.core.job import Job
from secretary.store import Store

from ..polling import until

ROOT = Path(__file__).parents[2]


def environment(data_dir: Path, url: str | None = None, **settings: str) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("SECRETARY_")}
    env.pop("MONGODB_URI", None)
    env["PYTHONPATH"] = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    env["SECRETARY_STORAGE__DATA_DIR"] = str(data_dir)
    if url is not None and url.startswith("mongodb"):
        env["MONGODB_URI"] = url
    return env | settings


class WorkerProcess:
    def __init__(self, env: dict[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "secretary", "worker"],
                env=env,
                cwd=ROOT,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        """Stop it with SIGTERM; fails if it does not exit."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        try:
            return self.process.wait(45)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


async def ended(store: Store, job_id: str, *, seconds: float = 30) -> Job:
    async def look() -> Job | None:
        job = await store.get(job_id)
        return job if job.completed_at is not None else None

    job: Job = await until(look, seconds=seconds, what=f"the end of {job_id}")
    return job
