"""Transformer jobs beside bare calls of the same endpoint, in one run on one machine.

    python bench/knowledge.py [--quick] [--json FILE]

The endpoint is a small server of our own that answers at once, or after 200 ms. What a job costs
beyond its call is measured one job at a time; the throughput with 50 jobs at a time.
"""

import http.client
import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import program
import report
from adapter import PEERS
from arena import Failed
from servers import SERVE, Running, Server, running

PARALLEL = 50
ANSWER_S = 0.2
#: Requests at a time that the endpoint is sent at the most: the default, and one for each job.
WIDTHS = (4, 16, 50)
LIMIT_S = 120
OVERHEAD_AIM_MS = 10.0
SHARE_AIM = 0.9
NOTES = """\
Overhead: medians of {jobs} jobs, one after the other, each a summary of another text, by an
endpoint that answers at once. "Bare call": the same request to the endpoint itself. "As a client
sees it": one request with `wait_ms`, from its first byte to its answer. "At work": from the start
of the job to its end. Throughput: a batch of {batch} jobs, {parallel} at a time, by an endpoint
that takes 200 ms for each; ideal is what so many requests at a time could get from it."""


@dataclass(frozen=True)
class Plan:
    jobs: int = 300
    batch: int = 500


QUICK = Plan(jobs=60, batch=100)


@dataclass
class Figures:
    bare_ms: list[float] = field(default_factory=list)
    seen_ms: list[float] = field(default_factory=list)
    work_ms: list[float] = field(default_factory=list)
    jobs_per_s: dict[int, float] = field(default_factory=dict)


def main(arguments: Sequence[str]) -> int:
    options = program.parser("knowledge.py", __doc__).parse_args(arguments)
    plan = QUICK if options.quick else Plan()
    with program.workplace() as place:
        figures = _measure(plan, place.root)
        machine = place.machine()
    print(_text(figures, plan, machine))
    program.keep(options.json, machine, plan, **asdict(figures))
    return 0


def _measure(plan: Plan, root: Path) -> Figures:
    figures = Figures()
    with _endpoint(0, root) as model, _service(model.url, 4, root) as service:
        _overhead(figures, plan.jobs, Client(model.url), Client(service.url))
    with _endpoint(ANSWER_S, root) as model:
        for width in WIDTHS:
            with _service(model.url, width, root) as service:
                figures.jobs_per_s[width] = _throughput(plan.batch, Client(service.url))
    return figures


@contextmanager
def _endpoint(seconds: float, root: Path) -> Iterator[Running]:
    command = (sys.executable, str(PEERS / "slow_model.py"), str(seconds * 1000))
    with running(Server("model", command, settings={}), root) as started:
        yield started


@contextmanager
def _service(model_url: str, width: int, root: Path) -> Iterator[Running]:
    settings = {
        "SECRETARY_LLM__BASE_URL": f"{model_url}/v1",
        "SECRETARY_LLM__MODEL": "slow",
        "SECRETARY_LLM__MAX_CONCURRENT": str(width),
        "SECRETARY_GENERIC_WORKER__MAX_CONCURRENT_WORKERS": str(PARALLEL),
        "SECRETARY_GENERIC_WORKER__PROCESSES": "1",
    }
    with running(Server("secretary", SERVE, settings=settings), root) as started:
        yield started


class Client:
    """One connection that stays open."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        self._connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            raise Failed(f"{path}: {answer.status} {content[:300]!r}")
        return json.loads(content)


def _text_of(number: int) -> str:
    return f"Text {number}. " + "Apples grow on trees, and people eat them. " * 40


def _overhead(figures: Figures, jobs: int, model: Client, service: Client) -> None:
    """In turn, so that noise hits both alike; the first of each are not counted."""
    warm_up = 10
    for number in range(jobs + warm_up):
        _, bare = _timed(model, "/v1/chat/completions", _request(number))
        body = {"text": _text_of(number), "summarize": True, "wait_ms": 30_000}
        answer, seen = _timed(service, "/api/transformer/text", body)
        if number >= warm_up:
            figures.bare_ms.append(bare)
            figures.seen_ms.append(seen)
            job = service.ask("GET", f"/api/jobs/{answer['process']['id']}")["data"]
            figures.work_ms.append(_work_ms(job))


def _request(number: int) -> dict[str, Any]:
    return {"model": "slow", "messages": [{"role": "user", "content": _text_of(number)}]}


def _timed(client: Client, path: str, body: Any) -> tuple[Any, float]:
    """The answer, and after how many milliseconds it was there."""
    started = time.perf_counter()
    answer = client.ask("POST", path, body)
    return answer, (time.perf_counter() - started) * 1000


def _work_ms(job: dict[str, Any]) -> float:
    started, ended = (
        datetime.fromisoformat(job[name]) for name in ("processing_started_at", "completed_at")
    )
    return (ended - started).total_seconds() * 1000


def _throughput(count: int, service: Client) -> float:
    service.ask("POST", "/api/transformer/text", {"text": "x", "summarize": True, "sync": True})
    jobs = [
        {"job_type": "transformer", "parameters": {"text": _text_of(number), "summarize": True}}
        for number in range(count)
    ]
    started = time.perf_counter()
    batch = service.ask("POST", "/api/jobs/batch", {"jobs": jobs})["data"]["batch_id"]
    while time.perf_counter() - started < LIMIT_S:
        told = service.ask("GET", f"/api/batches/{batch}")["data"]
        if told["completed_jobs"] + told["failed_jobs"] == count:
            if told["failed_jobs"]:
                raise Failed(f"{told['failed_jobs']} jobs failed")
            return float(count / (time.perf_counter() - started))
        time.sleep(0.01)
    raise Failed(f"{count} jobs took more than {LIMIT_S} s")


def _text(figures: Figures, plan: Plan, machine: str) -> str:
    median = statistics.median
    bare = median(figures.bare_ms)
    rows = [["", "ms", "beyond the bare call"]]
    for name, samples in (
        ("bare call", figures.bare_ms),
        ("job, at work", figures.work_ms),
        ("job, as a client sees it", figures.seen_ms),
    ):
        rows.append([name, f"{median(samples):.2f}", f"{median(samples) - bare:.2f}"])
    rates = [["requests at a time", "jobs/s", "ideal", "share"]]
    for width, rate in figures.jobs_per_s.items():
        ideal = min(width, PARALLEL) / ANSWER_S
        rates.append([str(width), f"{rate:.1f}", f"{ideal:.0f}", f"{rate / ideal:.2f}"])
    found = median(figures.seen_ms) - bare
    worst = min(rate * ANSWER_S / width for width, rate in figures.jobs_per_s.items())
    aims = [
        ["aim", "wanted", "found", "reached"],
        ["overhead, ms", f"< {OVERHEAD_AIM_MS:g}", f"{found:.2f}", _yes(found < OVERHEAD_AIM_MS)],
        [
            "share of the ideal, worst",
            f">= {SHARE_AIM:g}",
            f"{worst:.2f}",
            _yes(worst >= SHARE_AIM),
        ],
    ]
    notes = notes_of(asdict(plan))
    tables = [report.table(each) for each in (rows, rates, aims)]
    return "\n\n".join([*tables, notes, machine])


def notes_of(plan: Mapping[str, Any]) -> str:
    return NOTES.format(parallel=PARALLEL, **plan)


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


if __name__ == "__main__":
    program.run(main)
