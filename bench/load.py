"""Requests as fast as a server answers them: what wrk counts."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from arena import Failed
from servers import Running

SCRIPT = Path(__file__).resolve().parent / "wrk.lua"
#: What wrk may need beyond the time it was given.
MORE_S = 20


@dataclass(frozen=True)
class Load:
    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    """That the server, all of its processes, spent on each request."""


def post(server: Running, path: str, body: str, *, connections: int, seconds: int) -> Load:
    return _wrk(server, path, {"BENCH_METHOD": "POST", "BENCH_BODY": body}, connections, seconds)


def get(server: Running, path: str, *, connections: int, seconds: int) -> Load:
    return _wrk(server, path, {"BENCH_METHOD": "GET"}, connections, seconds)


def _wrk(server: Running, path: str, asked: dict[str, str], connections: int, seconds: int) -> Load:
    url, spent_before = f"{server.url}{path}", server.tree.cpu_seconds()
    # One thread: the server and wrk have a core each where there are two.
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(SCRIPT), url]
    env, limit_s = os.environ | asked, seconds + MORE_S
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise Failed(f"wrk took more than {limit_s} s") from None
    if done.returncode:
        raise Failed(f"wrk ended with {done.returncode}: {done.stderr.strip()}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    if found["errors"] or not found["requests"]:
        raise Failed(f"{found['errors']} of {found['requests']} requests failed")
    spent = server.tree.cpu_seconds() - spent_before
    return Load(
        found["requests"] / found["seconds"],
        p50_ms=found["p50_ms"],
        p99_ms=found["p99_ms"],
        cpu_us=spent / found["requests"] * 1e6,
    )
