"""Documents a second from end to end: uploaded by HTTP, kept in GridFS, read by workers that share
nothing but the MongoDB, and their text fetched again."""

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from adapter import MONGODB
from arena import Arena, Failed, environment, open_arena
from documents.long_files import plain_pages, scan, variant
from processes import Tree
from servers import SERVE, Server, running

UPLOADS_AT_ONCE = 2
LIMIT_S = 300
POLL_S = 0.25
#: Files that are read before the clock runs: what is loaded once is loaded by then.
WARM_UP = 4


@dataclass(frozen=True)
class Kind:
    name: str
    pages: int
    scanned: bool


@dataclass(frozen=True)
class Rate:
    """CPU: seconds of all processes, for each document."""

    per_s: float
    workers_cpu_s: float
    others_cpu_s: float


def files_of(kind: Kind, count: int, directory: Path) -> list[Path]:
    """So many files with the same pages, none of which is known from another."""
    made = (
        scan(directory, "en", 200, kind.pages).pdf
        if kind.scanned
        else plain_pages(directory, kind.pages)
    )
    return [variant(made, directory, f"{kind.name} {number}") for number in range(count)]


def documents_rate(root: Path, kind: Kind, files: Sequence[Path], *, workers: int) -> Rate:
    """Workers of one slot and one child process each, in data directories of their own."""
    with open_arena(MONGODB, root) as arena, ExitStack() as stack:
        settings = {"MONGODB_URI": arena.url, "SECRETARY_LOGGING__LEVEL": "warning"}
        server = Server("api", (*SERVE, "--no-worker"), settings=settings)
        api = stack.enter_context(running(server, root))
        trees = [stack.enter_context(_worker(arena, number)) for number in range(workers)]
        client = stack.enter_context(
            httpx.Client(base_url=api.url, timeout=LIMIT_S, trust_env=False)
        )
        _wait_for_workers(client, workers)
        _read_all(client, kind, files[:WARM_UP])
        others = files[WARM_UP:]
        before = _spent(trees), _spent([api.tree, arena.service])
        started = time.perf_counter()
        _read_all(client, kind, others)
        seconds = time.perf_counter() - started
        after = _spent(trees), _spent([api.tree, arena.service])
    of_workers, of_others = ((b - a) / len(others) for a, b in zip(before, after, strict=True))
    return Rate(len(others) / seconds, of_workers, of_others)


@contextmanager
def _worker(arena: Arena, number: int) -> Iterator[Tree]:
    directory = Path(tempfile.mkdtemp(prefix=f"worker-{number}-", dir=arena.directory))
    command = [sys.executable, "-m", "secretary", "worker", "--slots", "1", "--data-dir", "data"]
    env = environment(directory) | {
        "MONGODB_URI": arena.url,
        "SECRETARY_GENERIC_WORKER__PROCESSES": "1",
        "SECRETARY_LOGGING__LEVEL": "warning",
    }
    tree = Tree(command, directory=directory, env=env, output=directory / "worker.log")
    try:
        yield tree
    finally:
        tree.kill()


def _wait_for_workers(client: httpx.Client, workers: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while client.get("/api/health").json()["data"]["workers"] < workers:
        if time.monotonic() > deadline:
            raise Failed(f"{workers} workers did not start")
        time.sleep(POLL_S)


def _read_all(client: httpx.Client, kind: Kind, files: Sequence[Path]) -> None:
    """Hand them in, wait until all are read, and fetch their texts."""
    with ThreadPoolExecutor(UPLOADS_AT_ONCE) as threads:
        waiting = set(threads.map(lambda file: _upload(client, kind, file), files))
    deadline = time.monotonic() + LIMIT_S
    while waiting:
        job_id = min(waiting)
        job = client.get(f"/api/jobs/{job_id}").raise_for_status().json()["data"]
        if job["status"] == "completed":
            if not job["results"]["markdown_content"]:
                raise Failed(f"{job_id} has no text")
            waiting.remove(job_id)
        elif job["status"] in ("failed", "cancelled") or time.monotonic() > deadline:
            raise Failed(f"{job_id} is {job['status']}: {job['error']}")
        else:
            time.sleep(POLL_S)


def _upload(client: httpx.Client, kind: Kind, file: Path) -> str:
    fields = {"extraction_method": "ocr", "ocr_language": "eng"} if kind.scanned else {}
    with file.open("rb") as content:
        given = {"file": (file.name, content, "application/pdf")}
        answer = client.post("/api/pdf/process", data=fields, files=given).raise_for_status()
    return str(answer.json()["job_id"])


def _spent(trees: Sequence[Tree | None]) -> float:
    return sum(tree.cpu_seconds() for tree in trees if tree is not None)
