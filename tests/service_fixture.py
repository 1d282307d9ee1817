"""The service in this process: its API on a real socket, its worker with real engines."""

import asyncio
import io
import time
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from secretary.api import create_api
from secretary.app import Application
from secretary.config import load
from secretary.jobs.events import EventHub
from secretary.serve import run_worker, sending

from .api_server import served
from .backends import storage
from .no_tls import NO_TLS

SECONDS = 100


@dataclass(frozen=True)
class ServiceClient:
    client: httpx.AsyncClient
    data_dir: Path

    async def submit_file(
        self, route: str, content: bytes, name: str, *, user: str | None = None, **fields: Any
    ) -> str:
        """Upload a file; return its job ID."""
        headers = {"Prefer": "respond-async"} | ({"X-User-ID": user} if user else {})
        data = {key: str(value) for key, value in fields.items()}
        files = {"file": (name, content)}
        response = await self.client.post(route, files=files, data=data, headers=headers)
        assert response.status_code == 202, response.text
        job_id: str = response.json()["job_id"]
        return job_id

    async def submit(self, job_type: str, **parameters: Any) -> str:
        body = {"job_type": job_type, "parameters": parameters}
        response = await self.client.post("/api/jobs", json=body)
        assert response.status_code == 202, response.text
        job_id: str = response.json()["data"]["job_id"]
        return job_id

    async def job(self, job_id: str, user: str | None = None) -> dict[str, Any]:
        headers = {"X-User-ID": user} if user else {}
        response = await self.client.get(f"/api/jobs/{job_id}", headers=headers)
        document: dict[str, Any] = response.json()["data"]
        return document

    async def ended(self, job_id: str, user: str | None = None) -> dict[str, Any]:
        async with asyncio.timeout(SECONDS):
            while (job := await self.job(job_id, user))["completed_at"] is None:
                await asyncio.sleep(0.05)  # each poll takes 3 ms of CPU, which the job could use
        return job

    async def read(
        self, route: str, content: bytes, name: str, *, user: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """The results of a file."""
        job = await self.ended(
            await self.submit_file(route, content, name, user=user, **fields), user
        )
        assert job["status"] == "completed", job["error"]
        results: dict[str, Any] = job["results"]
        return results

    async def refused(self, route: str, content: bytes, name: str, **fields: Any) -> dict[str, Any]:
        """The error of a file."""
        job = await self.ended(await self.submit_file(route, content, name, **fields))
        assert job["status"] == "failed", job["results"]
        error: dict[str, Any] = job["error"]
        return error

    async def get(self, url: str) -> httpx.Response:
        response = await self.client.get(url)
        assert response.status_code == 200, response.text
        return response

    async def archived(self, url: str) -> list[str]:
        """The names of the members of a ZIP."""
        with zipfile.ZipFile(io.BytesIO((await self.get(url)).content)) as archive:
            return archive.namelist()

    async def leftovers(self, *, uploads: bool = True) -> list[str]:
        """What finished jobs have left behind: scratch files, uploads, unfinished files. A worker
        cleans up after a job has finished, so this waits for a moment."""
        deadline = time.monotonic() + 10
        while True:
            with suppress(FileNotFoundError):  # it is being removed right now
                remaining = self.current_leftovers(uploads)
                if not remaining or time.monotonic() > deadline:
                    return remaining
            await asyncio.sleep(0.05)

    def current_leftovers(self, with_uploads: bool = True) -> list[str]:
        scratch = self.data_dir.glob("jobs/*/*.scratch")
        uploads = self.data_dir.glob("uploads/job-*") if with_uploads else ()
        unfinished = self.data_dir.glob("cache/*/*/*/.*")
        return sorted(str(path) for path in (*scratch, *uploads, *unfinished))


@asynccontextmanager
async def running_service(data_dir: Path, **groups: Any) -> AsyncIterator[ServiceClient]:
    """Settings by group: `running_service(path, documents={"page_timeout_sec": 1})`; `handlers` is
    a list."""
    groups = {"storage": {}, **groups}
    groups["storage"] = {"data_dir": str(data_dir), **storage(data_dir), **groups["storage"]}
    settings = load(environment={}, overrides=groups)
    async with Application(settings) as app:
        parts = app.worker(on_ended=app.sender.wake)
        working = asyncio.create_task(run_worker(parts))
        hub = EventHub(app.store)
        api = create_api(app.job_service, hub=hub, max_body_bytes=1024 * 1024)
        try:
            async with (
                sending(app.sender),
                served(api) as (url, _),
                httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as client,
            ):
                yield ServiceClient(client, data_dir)
        finally:
            await hub.close()
            parts.worker.drain()
            await working
