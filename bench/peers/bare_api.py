"""The peer of the API benchmark: a FastAPI route that writes one row to SQLite with Secretary's
durability, and another that reads it.

    python bare_api.py direct|thread
"""

import asyncio
import json
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import apsw
import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from pydantic import BaseModel

SCHEMA = """
CREATE TABLE jobs (
    job_id TEXT PRIMARY KEY, job_type TEXT, parameters TEXT, status TEXT, created_at REAL
) WITHOUT ROWID
"""

COLUMNS = ("job_id", "job_type", "parameters", "status", "created_at")


class Job(BaseModel):
    job_type: str
    parameters: dict[str, Any]


def bare_api(*, in_thread: bool) -> FastAPI:
    """On the event loop, a statement takes microseconds and fsync a fraction of a millisecond."""
    api, thread = FastAPI(), ThreadPoolExecutor(1)
    db = apsw.Connection("bare.db")
    for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", SCHEMA):
        db.execute(statement)

    async def execute(statement: str, values: tuple[Any, ...]) -> Any:
        def work() -> Any:
            return db.execute(statement, values).fetchone()

        return (
            await asyncio.get_running_loop().run_in_executor(thread, work) if in_thread else work()
        )

    @api.post("/api/jobs")
    async def submit(job: Job) -> JSONResponse:
        job_id = str(uuid4())
        row = (job_id, job.job_type, json.dumps(job.parameters), "pending", time.time())
        await execute("INSERT INTO jobs VALUES (?, ?, ?, ?, ?)", row)
        return JSONResponse({"data": {"job_id": job_id, "status": "pending"}}, 202)

    @api.get("/api/jobs/{job_id}")
    async def show(job_id: str) -> JSONResponse:
        row = await execute("SELECT * FROM jobs WHERE job_id = ?", (job_id,))
        if row is None:
            return JSONResponse({"error": "Job not found"}, 404)
        data = dict(zip(COLUMNS, row, strict=True))
        return JSONResponse({"data": data | {"parameters": json.loads(data["parameters"])}})

    return api


async def serve(way: str) -> None:
    api = bare_api(in_thread=way == "thread")
    # As Secretary: the same event loop and parser, no access log.
    config = uvicorn.Config(api, lifespan="off", log_level="warning", access_log=False)
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as in `uvicorn.run`
        print(f"listens on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
