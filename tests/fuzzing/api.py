"""Schemathesis against the running program: `make fuzz-api ARGS="--max-examples 500"`."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..acceptance.program import Program, Running

KEY = "key-of-the-fuzzer"
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}
CONFIG = Path(__file__).with_name("schemathesis.toml")


@contextmanager
def started(directory: Path) -> Iterator[tuple[Program, Running]]:
    """The service with a worker, API keys and no access to other machines."""
    program = Program(
        directory,
        SECRETARY_API_KEYS=f"{KEY},bound:ann",
        SECRETARY_HANDLERS="tests.fuzzing.handlers:register",
        SECRETARY_LOGGING__LEVEL="warning",
    )
    with program.serving() as service:
        yield program, service


def fuzz(program: Program, service: Running, *arguments: str) -> int:
    """Return zero if nothing was found; findings are printed."""
    target = [f"{service.url}/api/openapi.json", "--header", f"Authorization:Bearer {KEY}"]
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run"]
    # No proxy between two programs on this machine.
    env = program.env | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    return subprocess.run(
        [*command, *target, *arguments], env=env, cwd=program.directory, check=False
    ).returncode


def fuzz_for(seconds: float, seed: int) -> int:
    """Round after round, each with a different seed."""
    exit_code = 0
    with tempfile.TemporaryDirectory() as directory, started(Path(directory)) as (program, service):
        until = time.monotonic() + seconds
        while not exit_code and time.monotonic() < until:
            exit_code = fuzz(program, service, "--max-examples", "10", "--seed", str(seed))
            seed += 1
        return _with_traceback(service, exit_code)


def _with_traceback(service: Running, exit_code: int) -> int:
    if "Traceback" not in service.err:
        return exit_code
    print(service.err, file=sys.stderr)
    return 1


def main() -> int:
    with tempfile.TemporaryDirectory() as directory, started(Path(directory)) as (program, service):
        return _with_traceback(service, fuzz(program, service, *sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
