"""What all benchmarks share: options, a work directory, the environments of peers, and the result
with the circumstances of the run."""

import argparse
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import apsw
import report
from report import Result, Samples

from secretary.version import __version__

BENCH = Path(__file__).resolve().parent
PEERS = BENCH / "peers"
#: Kept between runs: environments of peers, corpora.
WORK = BENCH.parent / ".bench"
sys.path.append(str(BENCH.parent))  # for the helpers of tests/
INSTALL_LIMIT_S = 600
#: Measures one part of a benchmark and adds it to the result.
Part = Callable[[Result, Any, Path], None]
#: Measures one row in the round of this number: figures by column.
Measure = Callable[[int], Mapping[str, float]]
FSYNC_PROBES = 50


class Failed(Exception):
    """A measurement that gave no figure; the message says why."""


@contextmanager
def recording_failure(failures: list[str], what: str = "") -> Iterator[None]:
    """One failed measurement must not cost the others their figures."""
    try:
        yield
    except (Failed, subprocess.SubprocessError, OSError) as failure:
        failures.append(f"{what}: {failure}" if what else str(failure))
        log(f"failed: {failures[-1]}")


def measure_parts(
    parts: Mapping[str, Part], only: Iterable[str], result: Result, plan: Any, root: Path
) -> None:
    for name in only:
        log(name)
        with recording_failure(result.failures, name):
            parts[name](result, plan, root)


def take_turns(rows: Mapping[str, Measure], rounds: int, failures: list[str]) -> Samples:
    """Every second round in reverse order, so that noise hits all rows alike. A row that has
    failed is not measured again."""
    samples, left = Samples(), dict(rows)
    for number in range(rounds):
        for name in list(left) if number % 2 == 0 else list(reversed(left)):
            log(f"round {number + 1} of {rounds}: {name}")
            before = len(failures)
            with recording_failure(failures, name):
                samples.add(name, left[name](number))
            if len(failures) > before:
                del left[name]
    return samples


def log(message: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {message}", file=sys.stderr, flush=True)


def parser(doc: str | None, parts: Iterable[str] = ()) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=(doc or "").split("\n")[0])
    made.add_argument("--quick", action="store_true", help="few samples, for a first look")
    made.add_argument("--json", type=Path, help="file for the result")
    if parts:
        choice = f"comma-separated: {', '.join(parts)}"
        made.add_argument("--only", type=some_of(parts), default=list(parts), help=choice)
    return made


def some_of(names: Iterable[str]) -> Callable[[str], list[str]]:
    """The type of an option that takes comma-separated names."""

    def chosen(text: str) -> list[str]:
        if unknown := set(text.split(",")) - set(names):
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
        return text.split(",")

    return chosen


@contextmanager
def benchmark(
    name: str, options: argparse.Namespace, plan: Any, *programs: str
) -> Iterator[tuple[Result, Path]]:
    """Yields the result to fill in and an empty directory; prints and stores the result."""
    # Turned into an exception, so that the processes of the run are ended as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    WORK.mkdir(exist_ok=True)
    started, load = time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="run-", dir=WORK, ignore_cleanup_errors=True) as root:
        date = datetime.now(UTC).isoformat(timespec="minutes")
        result = Result(name, date, options.quick, machine(Path(root)), [load], plan=asdict(plan))
        log(f"{result.machine}; load average {load:.1f}")
        yield result, Path(root)
    result.duration_s = time.monotonic() - started
    result.load.append(os.getloadavg()[0])
    result.versions = versions(programs) | result.versions
    print(report.text(result))
    if options.json:
        report.write(result, options.json)


def run(main: Callable[[Sequence[str]], Result]) -> NoReturn:
    try:
        sys.exit(1 if main(sys.argv[1:]).failures else 0)
    except KeyboardInterrupt:
        sys.exit("interrupted")


def environment(name: str, requirements: Sequence[str]) -> Path:
    """The Python of a virtual environment with these packages, created on first use."""
    directory = WORK / name
    python, installed = directory / "bin" / "python", directory / "requirements.installed"
    if installed.exists() and installed.read_text() == "\n".join(requirements):
        return python
    log(f"installing {' '.join(requirements)}")
    subprocess.run([sys.executable, "-m", "venv", "--clear", directory], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", *requirements]
    subprocess.run(pip, check=True, timeout=INSTALL_LIMIT_S)
    installed.write_text("\n".join(requirements))
    return python


def output(
    what: str,
    command: Sequence[object],
    *,
    limit_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    text: str = "",
) -> str:
    """What a program prints that gets this text and must succeed."""
    try:
        done = subprocess.run(
            list(map(str, command)), env=env, cwd=cwd, input=text, capture_output=True, text=True,
            errors="replace", timeout=limit_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Failed(f"{what} took more than {limit_s:.0f} s") from None
    if done.returncode:
        error = last_line(done.stderr)[-200:]
        raise Failed(f"{what} exited with {done.returncode}: {error}")
    return done.stdout


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1]


def has_program(program: str, *packages: str) -> bool:
    """Whether the program is there, after an attempt to install its Debian packages (by default
    the one of that name)."""
    if shutil.which(program):
        return True
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    packages = packages or (program,)
    log(f"installing {' '.join(packages)}")
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", *packages]):
        apt = ["apt-get", *command]
        subprocess.run(apt, env=env, stdout=subprocess.DEVNULL, timeout=INSTALL_LIMIT_S)
    return shutil.which(program) is not None


def machine(directory: Path) -> str:
    models = re.findall(r"(?m)^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"{os.cpu_count()} cores ({(models or [platform.machine()])[0]}), Linux "
        f"{platform.release()}, {memory:.0f} GB of memory, fsync of 4 kB in "
        f"{fsync_ms(directory):.2f} ms"
    )


def fsync_ms(directory: Path) -> float:
    path, times = directory / "fsync", []
    with path.open("wb", buffering=0) as file:
        for _ in range(FSYNC_PROBES):
            started = time.perf_counter()
            file.write(b"\0" * 4096)
            os.fsync(file.fileno())
            times.append(time.perf_counter() - started)
    path.unlink()
    return statistics.median(times) * 1000


def versions(programs: Iterable[str]) -> dict[str, str]:
    """Of Secretary, what it is built on, and these programs."""
    git = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(git, cwd=BENCH, capture_output=True, text=True).stdout.strip()
    numbers = {
        "Secretary": f"{__version__} ({commit})" if commit else __version__,
        "Python": platform.python_version(),
        "SQLite": apsw.sqlite_lib_version(),
    }
    for program in programs:
        path = _mongod() if program == "mongod" else shutil.which(program)
        if path is not None:
            command = [path, "-v" if program in ("wrk", "pdftotext") else "--version"]
            done = subprocess.run(command, capture_output=True, text=True)
            if number := re.search(r"\d+(?:\.\d+)+", done.stdout + done.stderr):
                numbers[program] = number[0]
    return numbers


def _mongod() -> str | None:
    from tests.mongod import MongodMissing, find_mongod

    try:
        return str(find_mongod())
    except MongodMissing:
        return None
