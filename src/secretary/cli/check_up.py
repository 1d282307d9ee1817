"""How a service elsewhere is, by what it tells of itself."""

from collections.abc import Iterator
from typing import Any

from ..client.connection import Connection
from ..client.errors import ApiError
from ..doctor import Finding, Verdict, judge_space
from ..version import __version__

#: Webhooks are told within seconds; after this a receiver is slow, or nobody sends.
LATE_SECONDS = 300


async def look_at_service(connection: Connection) -> list[Finding]:
    try:
        health = await connection.get("/api/health", attempts=1)
    except ApiError as error:
        if error.status != 503:
            raise
        remedy = "Look at the service's log; `secretary doctor` on its machine tells more."
        return [Finding("service", Verdict.PROBLEM, error.message, remedy)]
    system = await connection.get("/api/system")
    known = await connection.get("/api/job-types")
    handlers = ", ".join(each["job_type"] for each in known["job_types"])
    return [
        _judge_program(connection.url, health),
        Finding("handlers", Verdict.OK, handlers),
        Finding("store", Verdict.OK, f"{health['store']['kind']}, it answers"),
        *_judge_workers(health, system["workers"]),
        judge_space(system["disk"]["free_bytes"]),
        _judge_webhooks(float(system["webhook_lag_s"])),
    ]


def _judge_program(url: str, health: dict[str, Any]) -> Finding:
    fact = f"Secretary {health['version']} at {url}, up for {health['uptime_s'] / 3600:.1f} h"
    if health["stopping"]:
        return Finding("service", Verdict.WARNING, f"{fact}; it is shutting down")
    if health["version"] != __version__:
        return Finding("service", Verdict.INFO, f"{fact}; this program is {__version__}")
    return Finding("service", Verdict.OK, fact)


def _judge_workers(health: dict[str, Any], workers: list[dict[str, Any]]) -> Iterator[Finding]:
    jobs = health["jobs"]
    waiting = f"{jobs['pending']} jobs wait, {jobs['processing']} run"
    alive = [worker for worker in workers if worker["alive"]]
    if not alive:
        remedy = "Start one there: secretary worker"
        verdict = Verdict.WARNING if jobs["pending"] else Verdict.INFO
        yield Finding("workers", verdict, f"none is alive; {waiting}", remedy)
        return
    slots = sum(worker["slots"] for worker in alive)
    yield Finding("workers", Verdict.OK, f"{len(alive)} with {slots} slots; {waiting}")
    if others := {worker["version"] for worker in alive} - {health["version"]}:
        fact = f"workers of version {', '.join(sorted(others))} beside {health['version']}"
        yield Finding("versions", Verdict.INFO, fact)


def _judge_webhooks(late: float) -> Finding:
    if late > LATE_SECONDS:
        remedy = "The deliveries of its jobs tell why."
        return Finding("webhooks", Verdict.WARNING, f"one waits for {late:,.0f} s", remedy)
    return Finding("webhooks", Verdict.OK, "all were told in time")
