"""The doctor's checks of a service over HTTP."""

from collections.abc import Iterator
from typing import Any

from ..client.connection import Connection
from ..client.errors import ApiError
from ..observability.doctor import Finding, Verdict, check_disk_space
from ..version import __version__

#: Deliveries usually take seconds. After this many, a receiver is slow or no sender is running.
MAX_WEBHOOK_DELAY = 300


async def check_service(connection: Connection) -> list[Finding]:
    try:
        health = await connection.get("/api/health", attempts=1)
    except ApiError as error:
        if error.status != 503:
            raise
        remedy = "Check the service's log, or run `secretary doctor` on its machine."
        return [Finding("service", Verdict.PROBLEM, error.message, remedy)]
    system = await connection.get("/api/system")
    types = await connection.get("/api/job-types")
    handlers = ", ".join(each["job_type"] for each in types["job_types"])
    return [
        _check_version(connection.url, health),
        Finding("handlers", Verdict.OK, handlers),
        Finding("store", Verdict.OK, f"{health['store']['kind']}, reachable"),
        *_check_workers(health, system["workers"]),
        check_disk_space(system["disk"]["free_bytes"]),
        _check_webhooks(float(system["webhook_lag_s"])),
    ]


def _check_version(url: str, health: dict[str, Any]) -> Finding:
    fact = f"Secretary {health['version']} at {url}, up for {health['uptime_s'] / 3600:.1f} h"
    if health["stopping"]:
        return Finding("service", Verdict.WARNING, f"{fact}; it is shutting down")
    if health["version"] != __version__:
        return Finding("service", Verdict.INFO, f"{fact}; this program is {__version__}")
    return Finding("service", Verdict.OK, fact)


def _check_workers(health: dict[str, Any], workers: list[dict[str, Any]]) -> Iterator[Finding]:
    jobs = health["jobs"]
    queue = f"{jobs['pending']} jobs wait, {jobs['processing']} run"
    alive = [worker for worker in workers if worker["alive"]]
    if not alive:
        verdict = Verdict.WARNING if jobs["pending"] else Verdict.INFO
        remedy = "Start one there: secretary worker"
        yield Finding("workers", verdict, f"none is alive; {queue}", remedy)
        return
    slots = sum(worker["slots"] for worker in alive)
    yield Finding("workers", Verdict.OK, f"{len(alive)} with {slots} slots; {queue}")
    if others := {worker["version"] for worker in alive} - {health["version"]}:
        fact = f"workers of version {', '.join(sorted(others))} beside {health['version']}"
        yield Finding("versions", Verdict.INFO, fact)


def _check_webhooks(delay: float) -> Finding:
    if delay > MAX_WEBHOOK_DELAY:
        remedy = "Look at the deliveries of its jobs for the reason."
        return Finding("webhooks", Verdict.WARNING, f"one is delayed by {delay:,.0f} s", remedy)
    return Finding("webhooks", Verdict.OK, "delivered on time")
