"""Mixed jobs at full load for a long time: does anything grow that should not?

    make soak ARGS="[--minutes 30] [--store mongodb] [--svg FILE] [--json FILE] [--seed 1]"

`secretary serve` converts PDFs and scans, transcribes recordings, calls a scripted language model,
processes talks and sends webhooks, while memory, open files, threads, directories and sizes are
measured every few seconds. Jobs expire after a minute and the cache is small, so that removals are
visible. The exit code is 1 if a job fails or the trend of a series is not flat (`soak_series.py`).
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import soak_series
from harness import WORK
from processes import Server, running
from soak_series import Sample, take_sample

from tests.chaos.client import body_of
from tests.chaos.external_services import external_services
from tests.chaos.receivers import SECRET, Mailbox
from tests.chaos.workload import Check, Workload
from tests.mongod import Mongod

COMMAND = (sys.executable, __file__, "serve", "--port", "0", "--data-dir", "data")
MINUTE_IN_DAYS = str(1 / 24 / 60)
SETTINGS = {
    "SECRETARY_NETWORK__ALLOW_HOSTS": "127.0.0.1",
    "SECRETARY_RETENTION__COMPLETED_DAYS": MINUTE_IN_DAYS,
    "SECRETARY_RETENTION__FAILED_DAYS": MINUTE_IN_DAYS,
    "SECRETARY_RETENTION__CANCELLED_DAYS": MINUTE_IN_DAYS,
    "SECRETARY_CACHE__MAX_MB": "0",
    "SECRETARY_LOGGING__LEVEL": "warning",
}
MIXTURE = {"selftest": 8, "pdf": 8, "scan": 3, "audio": 1, "transformer": 5, "session": 3}
#: Open jobs at any time: more than there are slots.
OPEN_JOBS = 12
POLL_S = 0.25
FINISH_LIMIT_S = 120


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    load, samples = asyncio.run(_soak(options))
    times = [sample.at for sample in samples]
    series = soak_series.columns(samples)
    judged = soak_series.verdicts(times, series)
    finished = ", ".join(f"{kind} {count:,}" for kind, count in sorted(load.finished.items()))
    print(soak_series.table(series, judged))
    print(f"\n{load.finished.total():,} jobs in {options.minutes:g} minutes: {finished}")
    title = f"{options.minutes:g} minutes of mixed jobs ({options.store})"
    options.svg.parent.mkdir(parents=True, exist_ok=True)
    options.svg.write_text(soak_series.drawing(title, times, series))
    print(f"Chart: {options.svg}")
    if options.json:
        rows = [{"at": sample.at, **sample.values} for sample in samples]
        options.json.write_text(json.dumps({"finished": load.finished, "samples": rows}))
    faults = [*load.faults[:20], *soak_series.growing(judged)]
    for fault in faults:
        print(f"FAULT: {fault}", file=sys.stderr)
    print("Flat." if not faults else f"{len(faults)} faults.")
    return 1 if faults else 0


async def _soak(options: argparse.Namespace) -> tuple["Load", list[Sample]]:
    mailbox = Mailbox()
    with tempfile.TemporaryDirectory(prefix="soak-") as name, ExitStack() as stack:
        stack.callback(mailbox.close)
        async with external_services() as other:
            (temporary := Path(name, "temporary")).mkdir()
            settings = SETTINGS | other.model | {"TMPDIR": str(temporary)}
            uri = None
            if options.store == "mongodb":
                (directory := Path(name, "mongod")).mkdir()
                server = Mongod(directory)
                server.start()
                stack.callback(server.stop)
                uri = settings["MONGODB_URI"] = server.url("soak")
            service = stack.enter_context(running(Server("soak", COMMAND, settings), Path(name)))
            data, leader = service.directory / "data", service.tree.leader

            def webhook(path: str) -> dict[str, Any]:
                events = ["completed", "error"]
                return {"url": mailbox.url(path), "secret": SECRET, "events": events}

            workload = Workload(options.seed, "", other.site, webhook, MIXTURE)
            load, samples, started = Load(), list[Sample](), time.monotonic()
            deadline = started + options.minutes * 60
            working = asyncio.create_task(load.run(service.url, workload, deadline))
            every = max(1.0, min(5.0, options.minutes / 6))
            while time.monotonic() < deadline and not working.done():
                await asyncio.sleep(every)
                values = await asyncio.to_thread(take_sample, leader, data, temporary, uri)
                samples.append(Sample(time.monotonic() - started, values))
                mailbox.received_events.clear()
            await working
    return load, samples


@dataclass
class Load:
    """Keeps the service busy and checks the results."""

    finished: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    _open: dict[str, tuple[str, Check]] = field(default_factory=dict)

    async def run(self, url: str, workload: Workload, deadline: float) -> None:
        orders = workload.orders()
        async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
            while time.monotonic() < deadline or self._open:
                while len(self._open) < OPEN_JOBS and time.monotonic() < deadline:
                    await self._submit(client, next(orders))
                await self._check(client)
                await asyncio.sleep(POLL_S)
                if time.monotonic() > deadline + FINISH_LIMIT_S:
                    self.faults.append(f"{len(self._open)} jobs did not finish")
                    return

    async def _submit(self, client: httpx.AsyncClient, order: Any) -> None:
        response = await client.post(order.route, **body_of(order))
        if response.status_code != 202:
            self.faults.append(f"{order.kind}: {response.status_code} {response.text[:200]}")
            return
        answer = response.json()
        data = answer.get("data") or answer
        for job_id in data.get("job_ids") or [data["job_id"]]:
            self._open[job_id] = (order.kind, order.check)

    async def _check(self, client: httpx.AsyncClient) -> None:
        for job_id, (kind, check) in list(self._open.items()):
            response = await client.get(f"/api/jobs/{job_id}")
            job = response.json().get("data")
            if not job:
                self.faults.append(f"{kind}: {response.text[:200]}")
            elif job["completed_at"] is None:
                continue
            elif job["status"] != "completed":
                self.faults.append(f"{kind}: {job['error']}")
            else:
                self.faults += [f"{kind}: {fault}" for fault in check(job["results"])]
            self.finished[kind] += 1
            del self._open[job_id]


def serve() -> None:
    """`secretary` with frequent maintenance, so that a run of minutes shows what otherwise takes
    days: expired jobs are removed every 10 seconds instead of every minute, the cache is cleaned
    every 15 seconds instead of every ten minutes, and entries may go after 45 seconds without use,
    not after an hour."""
    from secretary.storage import cache
    from secretary.worker import maintenance

    cache.IN_USE = maintenance.IN_USE = timedelta(seconds=45)
    defaults = maintenance.MaintenanceOptions.__init__.__kwdefaults__
    assert defaults is not None
    defaults["tidy_every"] = timedelta(seconds=10)
    defaults["sweep_files_every"] = defaults["sweep_blob_store_every"] = timedelta(seconds=15)
    from secretary.cli import main

    main()


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--quick", action="store_true", help="the same as --minutes 4")
    parser.add_argument("--store", choices=("sqlite", "mongodb"), default="sqlite")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--svg", type=Path, default=WORK / "soak.svg")
    parser.add_argument("--json", type=Path, help="file for every sample")
    options = parser.parse_args(arguments)
    options.minutes = 4 if options.quick else options.minutes
    return options


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve()
    else:
        sys.exit(main(sys.argv[1:]))
