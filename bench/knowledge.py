"""Transformer jobs next to bare calls of the same model endpoint.

    python bench/knowledge.py [--quick] [--json FILE]

The endpoint is a small server of the benchmark that answers at once, or after 200 ms. The overhead
is measured one job at a time, the throughput with 50 concurrent jobs.
"""

import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
from harness import PEERS, Failed
from processes import SERVE, Server, running
from report import Cell, Chart, Result, at_least, at_most
from service import execution_seconds

PARALLEL = 50
RESPONSE_S = 0.2
#: How many concurrent requests the endpoint gets: the default, four times that, one per job.
CONCURRENCY = (4, 16, 50)
LIMIT_S = 120
WARM_UP = 10
OVERHEAD_TARGET_MS = 10.0
SHARE_TARGET = 0.9


@dataclass(frozen=True)
class Plan:
    jobs: int = 300
    batch: int = 500


QUICK = Plan(jobs=60, batch=100)


def main(arguments: Sequence[str]) -> Result:
    options = harness.parser(__doc__).parse_args(arguments)
    plan = QUICK if options.quick else Plan()
    with harness.benchmark("knowledge", options, plan) as (result, root):
        medians = _overhead(plan.jobs, root)
        bare, overhead = medians["bare call"], medians["job, client"] - medians["bare call"]
        rates = {width: _throughput(plan.batch, width, root) for width in CONCURRENCY}
        ideal = {width: width / RESPONSE_S for width in CONCURRENCY}
        shares = {width: rates[width] / ideal[width] for width in CONCURRENCY}
        worst = min(shares, key=lambda width: shares[width])
        chart = Chart(
            "rates", "Throughput by concurrent requests", "jobs/s", [1, 2],
            ["measured", "ideal"], "lines", "concurrent requests",
        )  # fmt: skip
        lines: list[list[Cell]] = [[name, value, value - bare] for name, value in medians.items()]
        result.add("Overhead", ["", "ms", "overhead ms"], lines)
        head = ["concurrent requests", "jobs/s", "ideal", "share"]
        lines = [[str(n), rates[n], ideal[n], shares[n]] for n in CONCURRENCY]
        result.add("Throughput", head, lines, chart)
        name = f"share of the endpoint's throughput, worst ({worst} concurrent requests)"
        result.targets = [
            at_most("overhead of a job", OVERHEAD_TARGET_MS, overhead, "ms"),
            at_least(name, SHARE_TARGET, shares[worst]),
        ]
    return result


def _endpoint(seconds: float) -> Server:
    command = (sys.executable, str(PEERS / "slow_model.py"), str(seconds * 1000))
    return Server("model", command)


def _service(model_url: str, width: int) -> Server:
    settings = {
        "SECRETARY_LLM__BASE_URL": f"{model_url}/v1",
        "SECRETARY_LLM__MODEL": "slow",
        "SECRETARY_LLM__MAX_CONCURRENT": str(width),
        "SECRETARY_GENERIC_WORKER__MAX_CONCURRENT_WORKERS": str(PARALLEL),
        "SECRETARY_GENERIC_WORKER__PROCESSES": "1",
    }
    return Server("secretary", SERVE, settings)


def _text(number: int) -> str:
    return f"Text {number}. " + "Apples grow on trees, and people eat them. " * 40


def _overhead(jobs: int, root: Path) -> dict[str, float]:
    """Medians in ms; bare calls and jobs take turns."""
    samples: dict[str, list[float]] = {"bare call": [], "job, execution": [], "job, client": []}
    with running(_endpoint(0), root) as model, running(_service(model.url, 4), root) as server:
        endpoint, service = model.client(), server.client()
        for number in range(jobs + WARM_UP):
            messages = [{"role": "user", "content": _text(number)}]
            body: dict[str, Any] = {"model": "slow", "messages": messages}
            started = time.perf_counter()
            endpoint.request("POST", "/v1/chat/completions", body)
            bare = time.perf_counter() - started
            body = {"text": _text(number), "summarize": True, "wait_ms": 30_000}
            started = time.perf_counter()
            answer = service.request("POST", "/api/transformer/text", body)
            client = time.perf_counter() - started
            job = service.request("GET", f"/api/jobs/{answer['process']['id']}")["data"]
            times = bare, execution_seconds(job), client
            for name, seconds in zip(samples, times, strict=True):
                samples[name].append(seconds * 1000)
    return {name: statistics.median(values[WARM_UP:]) for name, values in samples.items()}


def _throughput(count: int, width: int, root: Path) -> float:
    with (
        running(_endpoint(RESPONSE_S), root) as model,
        running(_service(model.url, width), root) as server,
    ):
        service = server.client()
        warm_up = {"text": "x", "summarize": True, "sync": True}
        service.request("POST", "/api/transformer/text", warm_up)
        jobs = [
            {"job_type": "transformer", "parameters": {"text": _text(number), "summarize": True}}
            for number in range(count)
        ]
        started = time.perf_counter()
        batch = service.request("POST", "/api/jobs/batch", {"jobs": jobs})["data"]["batch_id"]
        while time.perf_counter() - started < LIMIT_S:
            counts = service.request("GET", f"/api/batches/{batch}")["data"]
            if counts["failed_jobs"]:
                raise Failed(f"{counts['failed_jobs']} jobs failed")
            if counts["completed_jobs"] == count:
                return float(count / (time.perf_counter() - started))
            time.sleep(0.01)
    raise Failed(f"{count} jobs took more than {LIMIT_S} s")


if __name__ == "__main__":
    harness.run(main)
