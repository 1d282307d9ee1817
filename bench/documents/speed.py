"""Pages a second: the tools in a process each, ours through whole jobs, in turn."""

import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from arena import Failed, noting_failure

from .long_files import plain_pages, variant
from .reading import read
from .service import Done, Service, serving
from .tools import PDFIUM, SECRETARY, TOOLS

QUICK = ("pdftotext", "pymupdf", "pdf-inspector")
#: These take seconds for a file, and are measured in the first round only.
SLOW = ("pdf_oxide", "pypdf", "xberg", "kreuzberg")
#: These take half a minute.
SLOWEST = ("markitdown",)
#: What of our time goes into reading itself, the rest being the way of a job.
ALONE = "secretary, reading alone"
PROCESSES = (1, 2)
WARM_UP_PAGES = 10
REPEATS = 20


@dataclass
class Pace:
    """Of one tool, or of one way to hand in a job, a sample for each round."""

    name: str
    pages_per_s: list[float] = field(default_factory=list)
    #: From the start of the job to its end, without the way there and back.
    working_per_s: list[float] = field(default_factory=list)
    #: The pace over that of raw PDFium in the same round.
    times_raw: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@dataclass
class Speed:
    pages: int
    paces: dict[str, Pace] = field(default_factory=dict)
    #: Milliseconds of jobs on a file that is known, as the client sees them.
    cached_ms: dict[str, list[float]] = field(default_factory=dict)
    #: From the start of the same jobs to their end.
    cached_at_work_ms: dict[str, list[float]] = field(default_factory=dict)

    def pace(self, name: str) -> Pace:
        return self.paces.setdefault(name, Pace(name))


def our_name(processes: int, way: str) -> str:
    return f"secretary, {processes} process{'es' if processes > 1 else ''}, {way}"


def measure_speed(
    work: Path, root: Path, file: Path, *, rounds: int, once: Sequence[str] = ()
) -> Speed:
    """`once`: tools that are measured in the first round only."""
    speed = Speed(_pages(file))
    with ExitStack() as stack:
        services = {
            count: stack.enter_context(serving(root, root, processes=count)) for count in PROCESSES
        }
        warm_up = plain_pages(root, WARM_UP_PAGES)
        for service in services.values():
            service.read(warm_up)
        for number in range(rounds):
            tools = QUICK if number else (*QUICK, *once)
            _measure_round(speed, number, file, services, work, tools)
        _measure_cached(speed, services[PROCESSES[0]], file, root)
    return speed


def _measure_round(
    speed: Speed,
    number: int,
    file: Path,
    services: Mapping[int, Service],
    work: Path,
    tools: Sequence[str],
) -> None:
    raw = speed.pace(PDFIUM.name)
    before = _tool_pace(PDFIUM.name, file, work)
    ours: dict[str, float] = {}
    for count, service in services.items():
        for way in ("by path", "by upload"):
            pace = speed.pace(our_name(count, way))
            with noting_failure(pace.failures):
                fresh = variant(file, file.parent, f"{number} {count} {way}")
                done = service.read(fresh) if way == "by path" else service.upload(fresh)
                _check(done, speed.pages)
                pace.pages_per_s.append(speed.pages / done.client_s)
                pace.working_per_s.append(speed.pages / done.work_s)
                ours[pace.name] = pace.pages_per_s[-1]
                fresh.unlink()
    # Before and behind ours, so that a disturbance hits both alike.
    raw.pages_per_s.append(statistics.mean([before, _tool_pace(PDFIUM.name, file, work)]))
    alone = speed.pace(ALONE)
    with noting_failure(alone.failures):
        ours[ALONE] = _tool_pace(SECRETARY.name, file, work)
        alone.pages_per_s.append(ours[ALONE])
    for name in tools:
        pace = speed.pace(name)
        with noting_failure(pace.failures):
            ours[name] = _tool_pace(name, file, work)
            pace.pages_per_s.append(ours[name])
    for name, value in ours.items():
        speed.pace(name).times_raw.append(value / raw.pages_per_s[-1])


def _tool_pace(name: str, file: Path, work: Path) -> float:
    """In a process that has read a file before, as ours have."""
    tool = next(tool for tool in TOOLS if tool.name == name)
    warm_up = plain_pages(file.parent, WARM_UP_PAGES)
    readings = read(tool, [warm_up, file], work)
    if error := readings.failures.get(file.stem):
        raise Failed(error)
    return _pages(file) / readings.wall_s[file.stem]


def _pages(file: Path) -> int:
    return int(file.stem.split("-")[1])


def _check(done: Done, pages: int) -> None:
    found = done.job["results"]["metadata"]["page_count"]
    if done.from_cache or found != pages:
        raise Failed(f"{found} pages, {'' if done.from_cache else 'not '}from the cache")


def _measure_cached(speed: Speed, service: Service, file: Path, root: Path) -> None:
    """The same contents once more: under the same name, then as an upload under another."""
    known = variant(file, root, "cached")
    service.read(known)
    other = root / "another-name.pdf"
    other.write_bytes(known.read_bytes())
    for way, ask in (("by path", service.read), ("by upload", service.upload)):
        jobs = [ask(known if way == "by path" else other) for _ in range(REPEATS)]
        if not all(done.from_cache for done in jobs):
            raise Failed("a known file was read again")
        speed.cached_ms[way] = [done.client_s * 1000 for done in jobs]
        speed.cached_at_work_ms[way] = [done.work_s * 1000 for done in jobs]
