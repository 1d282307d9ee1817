"""Requests as fast as a server answers them: what wrk counts."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from arena import Failed

SCRIPT = Path(__file__).resolve().parent / "wrk.lua"
#: What wrk may need beyond the time it was given.
MORE_S = 20


@dataclass(frozen=True)
class Load:
    per_s: float
    p50_ms: float
    p99_ms: float


def post(url: str, body: str, *, connections: int, seconds: int) -> Load:
    return _wrk(url, {"BENCH_METHOD": "POST", "BENCH_BODY": body}, connections, seconds)


def get(url: str, *, connections: int, seconds: int) -> Load:
    return _wrk(url, {"BENCH_METHOD": "GET"}, connections, seconds)


def _wrk(url: str, asked: dict[str, str], connections: int, seconds: int) -> Load:
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
    return Load(found["requests"] / found["seconds"], found["p50_ms"], found["p99_ms"])
