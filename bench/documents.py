"""Quality and speed of document conversion, next to other tools.

    python bench/documents.py [--quick] [--only quality,real,speed,ocr,memory] [--json FILE]

Tools take turns, round after round; each has its own environment. Secretary is measured through
whole jobs: submitted over HTTP, queued, processed in child processes, stored, and awaited through
the event stream. `corpus/score.py` defines the quality measures.
"""

import os
import statistics
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import harness
import quality
from corpus.corpus import Split
from corpus.files import Scan, mixed_pages, plain_pages, scan, variant
from corpus.manuals import documents
from corpus.score import MEASURES, average, character_error_rate
from harness import WORK, Failed, log, recording_failure
from processes import sampling
from report import Cell, Chart, Result, Table, ahead, at_least, at_most, median, spread
from service import Done, Service, serving
from tools import PDF_TOOLS, PDFIUM, SECRETARY, read_one

PROCESSES = (1, 2)
#: Left out of a quick run: they take a minute for the corpus.
SLOWEST = ("pymupdf4llm", "markitdown")
#: Measured in every round; the others take seconds per file and are measured in the first round.
FAST = ("pdftotext", "pymupdf", "pdf-inspector")
SLOW = ("pdf_oxide", "pypdf", "xberg", "kreuzberg")
EXTRACTION_ONLY = "secretary, extraction only"
WARM_UP_PAGES = 10
CACHE_REPEATS = 20
SCANS = (("en", 300), ("de", 200), ("en", 200), ("de", 300))
TESSERACT, OCRMYPDF = "tesseract, one core", "OCRmyPDF, one core"
OCR_LIMIT_S = 600
MEMORY_PROCESSES, SAMPLE_EVERY_S, MEMORY_DPI = 2, 0.05, 200
#: By the number of child processes.
TEXT_TARGETS, OCR_TARGETS = {1: 0.8, 2: 1.5}, {1: 0.95, 2: 1.8}
CACHED_TARGET_MS = 20
OWN, REAL = "Quality, generated documents", "Quality, real manuals"
QUALITY_NOTES = """\
CPU: of the conversion; for Secretary of the whole service. The measures are defined in \
`bench/README.md`."""
SPEED_NOTES = """\
Medians of {rounds} rounds (mixed: {mixed_rounds}) with files of {pages} pages that are not \
cached. Plain: one column of text. Mixed: pages of the quality corpus. Tools: in a process that \
has read a file before. Secretary: as the client sees it; "execution": from the job's start to \
its end. x PDFium: round by round."""
OCR_NOTES = """\
{scanned_pages} pages per scan, {ocr_rounds} rounds. CER: character error rate. One core: \
`OMP_THREAD_LIMIT=1`, one page after the other. Secretary reads 300 dpi scans at 200 dpi."""
MEMORY_NOTES = """\
Peak resident memory of the service, of the larger of its two child processes, and of all \
processes added up (shared memory counts more than once)."""


@dataclass(frozen=True)
class Plan:
    pages: int = 200
    rounds: int = 7
    mixed_rounds: int = 3
    every_tool: bool = True
    scans: tuple[tuple[str, int], ...] = SCANS
    scanned_pages: int = 4
    ocr_rounds: int = 2
    native_pages: tuple[int, ...] = (10, 100, 1_000)
    ocr_pages: tuple[int, ...] = (10, 100)


QUICK = Plan(
    rounds=2, mixed_rounds=1, every_tool=False, scans=SCANS[:2], scanned_pages=2, ocr_rounds=1,
    native_pages=(10, 100), ocr_pages=(4,),
)  # fmt: skip


def main(arguments: Sequence[str]) -> Result:
    options = harness.parser(__doc__, PARTS).parse_args(arguments)
    plan = QUICK if options.quick else Plan()
    with harness.benchmark("documents", options, plan, "tesseract") as (result, root):
        parts = [part for part in options.only if part != "real" or plan.every_tool]
        harness.measure_parts(PARTS, parts, result, plan, root)
    return result


def _processes(count: int) -> str:
    return f"{count} process{'es' if count > 1 else ''}"


def _measure_quality(result: Result, plan: Plan, root: Path, *, split: Split) -> None:
    corpus = documents(WORK, split)
    result.failures += [f"not installed: {name}" for name in corpus.missing]
    rows = [quality.measure_jobs(corpus.samples, root)]
    for tool in PDF_TOOLS.values():
        if tool != SECRETARY and (plan.every_tool or tool.name not in SLOWEST):
            log(f"{split}: {tool.name}")
            rows.append(quality.measure(tool, corpus.samples))
    result.failures += [f"{row.tool}: {failure}" for row in rows for failure in row.failures]
    result.versions |= {row.tool: row.version for row in rows[1:]}
    title = REAL if split == "real" else OWN
    result.tables.append(quality.table(rows, corpus.samples, title, QUALITY_NOTES))
    ours, *peers = [(row.tool, average(row.scores.values())) for row in rows if row.scores]
    for name in MEASURES:
        figures = {tool: averages[name] for tool, averages in peers}
        label = f"{'real manuals' if split == 'real' else 'generated documents'}: {name}"
        result.targets.append(ahead(label, ours[1][name], figures, decimals=3))


@dataclass
class Speed:
    """Samples by the name of the row, one per round."""

    pages: int
    rates: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    execution_rates: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    #: Over PDFium in the same round.
    ratios: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    #: Jobs on a cached file, by how it was submitted.
    cached: dict[str, list[Done]] = field(default_factory=dict)

    def cells(self, name: str) -> list[Cell]:
        if name not in self.rates:
            return [""] * 3
        execution: Cell = spread(self.execution_rates[name]) or ""
        ratio: Cell = 1.0 if name == PDFIUM.name else spread(self.ratios[name])
        return [spread(self.rates[name]), execution, ratio]


def _measure_speed(result: Result, plan: Plan, root: Path) -> None:
    once: tuple[str, ...] = (*SLOW, "markitdown") if plan.every_tool else SLOW
    plain = measure_speed(result, root, plain_pages(root, plan.pages), plan.rounds, once)
    log("speed: mixed pages")
    files = [sample.pdf for sample in documents(WORK, "test").samples]
    once = SLOW if plan.every_tool else ()
    mixed_file = mixed_pages(root, plan.pages, files)
    mixed = measure_speed(result, root, mixed_file, plan.mixed_rounds, once)
    columns = ("pages/s", "execution", "x PDFium")
    head = ["", *(f"{kind} {name}" for kind in ("plain:", "mixed:") for name in columns)]
    lines = [[name, *plain.cells(name), *mixed.cells(name)] for name in plain.rates]
    chart = Chart("speed", "Pages per second, plain text", "pages/s", [1])
    result.tables.append(Table(head, lines, "Speed", SPEED_NOTES.format(**result.plan), [chart]))
    lines = []
    for way, jobs in plain.cached.items():
        times, execution = [1000 * j.client_s for j in jobs], [1000 * j.execution_s for j in jobs]
        p95 = statistics.quantiles(times, n=20)[-1]
        lines.append([way, statistics.median(times), p95, statistics.median(execution)])
    head = ["submitted", "p50 ms", "p95 ms", "execution p50 ms"]
    result.tables.append(Table(head, lines, "A cached file"))
    for count, target in TEXT_TARGETS.items():
        ratio = median(plain.ratios[_our_name(count, "by path")])
        name = f"text layer, {_processes(count)}, x PDFium"
        result.targets.append(at_least(name, target, ratio, peer="PDFium"))
    times = [1000 * done.client_s for jobs in plain.cached.values() for done in jobs]
    result.targets.append(at_most("cached file, p50", CACHED_TARGET_MS, median(times), "ms"))


def _our_name(processes: int, way: str) -> str:
    return f"secretary, {_processes(processes)}, {way}"


def measure_speed(
    result: Result, root: Path, file: Path, rounds: int, once: Sequence[str]
) -> Speed:
    """`once`: tools that are measured in the first round only."""
    speed = Speed(int(file.stem.split("-")[1]))
    with ExitStack() as stack:
        services = {
            count: stack.enter_context(serving(root, root, processes=count)) for count in PROCESSES
        }
        for service in services.values():
            service.read(plain_pages(root, WARM_UP_PAGES))
        for number in range(rounds):
            tools = FAST if number else (*FAST, *once)
            _measure_round(result, speed, number, file, services, tools)
        _measure_cached(speed, services[PROCESSES[0]], file, root)
    return speed


def _measure_round(
    result: Result,
    speed: Speed,
    number: int,
    file: Path,
    services: Mapping[int, Service],
    tools: Sequence[str],
) -> None:
    rates: dict[str, float] = {}
    before = _tool_rate(PDFIUM.name, file)
    speed.rates[PDFIUM.name] = speed.rates.get(PDFIUM.name, [])  # the first row
    for count, service in services.items():
        for way in ("by path", "by upload"):
            name = _our_name(count, way)
            with recording_failure(result.failures, name):
                fresh = variant(file, file.parent, f"{number} {count} {way}")
                done = service.read(fresh) if way == "by path" else service.upload(fresh)
                pages = done.job["results"]["metadata"]["page_count"]
                if done.from_cache or pages != speed.pages:
                    raise Failed(f"{pages} pages, {'' if done.from_cache else 'not '}cached")
                rates[name] = speed.pages / done.client_s
                speed.execution_rates[name].append(speed.pages / done.execution_s)
                fresh.unlink()
    # Before and after ours, so that a disturbance hits both alike.
    raw = statistics.mean([before, _tool_rate(PDFIUM.name, file)])
    with recording_failure(result.failures, EXTRACTION_ONLY):
        rates[EXTRACTION_ONLY] = _tool_rate(SECRETARY.name, file)
    for name in tools:
        with recording_failure(result.failures, name):
            rates[name] = _tool_rate(name, file)
    speed.rates[PDFIUM.name].append(raw)
    for name, rate in rates.items():
        speed.rates[name].append(rate)
        speed.ratios[name].append(rate / raw)


def _tool_rate(name: str, file: Path) -> float:
    warm_up = plain_pages(file.parent, WARM_UP_PAGES)
    readings, stem = read_one(PDF_TOOLS[name], file, warm_up=warm_up)
    return int(stem.split("-")[1]) / readings.wall_s[stem]


def _measure_cached(speed: Speed, service: Service, file: Path, root: Path) -> None:
    """The same contents again: under the same name, then as an upload under another."""
    cached, other = variant(file, root, "cached"), root / "another-name.pdf"
    service.read(cached)
    other.write_bytes(cached.read_bytes())
    speed.cached["by path"] = [service.read(cached) for _ in range(CACHE_REPEATS)]
    speed.cached["by upload"] = [service.upload(other) for _ in range(CACHE_REPEATS)]
    if not all(done.from_cache for jobs in speed.cached.values() for done in jobs):
        raise Failed("a cached file was processed again")


#: Reads a scan: the text, and the seconds it took.
OcrReader = Callable[[Scan, int], tuple[str, float]]


@dataclass
class OcrRow:
    """By the name of the scan; rates and ratios have one sample per round."""

    rates: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    #: Over Tesseract in the same round.
    ratios: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    error_rates: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @contextmanager
    def recording_failure(self) -> Iterator[None]:
        try:
            yield
        except (Failed, subprocess.SubprocessError, OSError) as failure:
            self.failures.append(str(failure)[:300])


def _measure_ocr(result: Result, plan: Plan, root: Path) -> None:
    if not harness.has_program("tesseract", "tesseract-ocr"):
        raise Failed("there is no tesseract: apt-get install tesseract-ocr tesseract-ocr-deu")
    rows = measure_ocr(plan, root)
    if not rows[OCRMYPDF].failures:
        result.versions["ocrmypdf"] = _run(*_ocrmypdf_command(), "--version").strip()
    scans = list(rows[TESSERACT].rates)
    head = ["", *(f"{name}: pages/s|x tesseract|CER %" for name in scans)]
    head = [title for titles in head for title in titles.split("|")]
    lines: list[list[Cell]] = []
    for name, row in rows.items():
        result.failures += [f"{name}: {failure}" for failure in row.failures]
        line: list[Cell] = [name]
        for one in scans:
            rate = row.error_rates.get(one)
            line += [spread(row.rates[one]), spread(row.ratios[one])]
            line.append(None if rate is None else rate * 100)
        lines.append(line)
    columns = [1 + 3 * number for number in range(len(scans))]
    chart = Chart("ocr", "Scanned pages per second", "pages/s", columns, scans)
    result.tables.append(Table(head, lines, "OCR", OCR_NOTES.format(**result.plan), [chart]))
    for count, target in OCR_TARGETS.items():
        ratios = rows[f"secretary, {_processes(count)}"].ratios
        worst = min((statistics.median(ratios[one]) for one in scans if ratios[one]), default=None)
        name = f"OCR, {_processes(count)}, x tesseract, worst scan"
        result.targets.append(at_least(name, target, worst, peer=TESSERACT))


def measure_ocr(plan: Plan, root: Path) -> dict[str, OcrRow]:
    made = [scan(root, language, dpi, plan.scanned_pages) for language, dpi in plan.scans]  # type: ignore[arg-type]
    with ExitStack() as stack:
        readers: dict[str, OcrReader] = {TESSERACT: _tesseract}
        for count in PROCESSES:
            service = stack.enter_context(serving(root, root, processes=count))
            readers[f"secretary, {_processes(count)}"] = _ours(service)
        readers[OCRMYPDF] = _ocrmypdf(root)
        rows = {name: OcrRow() for name in readers}
        warm_up = scan(root, "en", 100, 1)
        for name, reader in readers.items():
            with rows[name].recording_failure():
                reader(warm_up, -1)
        for number in range(plan.ocr_rounds):
            for one in made:
                rates: dict[str, float] = {}
                for name, reader in readers.items():
                    row = rows[name]
                    if row.failures:
                        continue
                    with row.recording_failure():
                        text, seconds = reader(one, number)
                        rates[name] = len(one.texts) / seconds
                        row.rates[one.name].append(rates[name])
                        error_rate = character_error_rate(" ".join(one.texts), text)
                        row.error_rates[one.name] = error_rate
                        if TESSERACT in rates:
                            row.ratios[one.name].append(rates[name] / rates[TESSERACT])
    return rows


def _tesseract(one: Scan, number: int) -> tuple[str, float]:
    texts, started = [], time.perf_counter()
    for image in one.images:
        texts.append(_run("tesseract", str(image), "-", "-l", one.tesseract_language))
    return "\n".join(texts), time.perf_counter() - started


def _ours(service: Service) -> OcrReader:
    def read(one: Scan, number: int) -> tuple[str, float]:
        fresh = variant(one.pdf, one.pdf.parent, f"round {number}")
        options = {"extraction_method": "ocr", "ocr_language": one.tesseract_language}
        done = service.read(fresh, **options)
        if done.from_cache:
            raise Failed("the scan was cached")
        pages = done.job["results"]["metadata"]["text_contents"]
        return "\n".join(page["content"] for page in pages), done.client_s

    return read


def _ocrmypdf(root: Path) -> OcrReader:
    def read(one: Scan, number: int) -> tuple[str, float]:
        command = _ocrmypdf_command()
        sidecar, output = root / "sidecar.txt", root / "searchable.pdf"
        options = ["--jobs", "1", "--optimize", "0", "--output-type", "pdf", "--quiet"]
        options += ["--language", one.tesseract_language, "--sidecar", str(sidecar)]
        started = time.perf_counter()
        _run(*command, *options, str(one.pdf), str(output))
        return sidecar.read_text(encoding="utf-8"), time.perf_counter() - started

    return read


def _ocrmypdf_command() -> tuple[str, ...]:
    return str(harness.environment("reader-ocrmypdf", ["ocrmypdf"])), "-m", "ocrmypdf"


def _run(*command: str) -> str:
    """With one thread: rows are compared core by core, and more threads slow Tesseract down."""
    env = os.environ | {"OMP_THREAD_LIMIT": "1"}
    done = subprocess.run(command, env=env, capture_output=True, timeout=OCR_LIMIT_S)
    if done.returncode:
        raise Failed(done.stderr.decode("utf-8", "replace").strip()[-200:] or "it failed")
    return done.stdout.decode("utf-8", "replace")


def _measure_memory(result: Result, plan: Plan, root: Path) -> None:
    """Each length in a service of its own: memory that was taken once may stay taken."""
    files = [("native", pages, plain_pages(root, pages)) for pages in plan.native_pages]
    files += [("ocr", pages, scan(root, "en", MEMORY_DPI, pages).pdf) for pages in plan.ocr_pages]
    lines: list[list[Cell]] = []
    for method, pages, file in files:
        figures: list[Cell] = [None] * 4
        with recording_failure(result.failures, f"memory, {method}, {pages} pages"):
            figures = [*_peak(method, file, root)]
        lines.append([method, f"{pages:,}", *figures])
    head = ["method", "pages", "service MB", "larger child MB", "all MB", "s"]
    result.tables.append(Table(head, lines, "Peak memory", MEMORY_NOTES))


def _peak(method: str, file: Path, root: Path) -> tuple[float, float, float, float]:
    with serving(root, root, processes=MEMORY_PROCESSES) as service:
        # By process id, including processes that have ended.
        peaks: dict[int, int] = {}

        def sample() -> None:
            for (pid, _), size in service.tree.peak_bytes().items():
                peaks[pid] = max(size, peaks.get(pid, 0))

        with sampling(sample, SAMPLE_EVERY_S):
            options = {"ocr_language": "eng"} if method == "ocr" else {}
            seconds = service.read(file, extraction_method=method, **options).client_s
        leader = peaks.pop(service.tree.leader)
    everything = leader + sum(peaks.values())
    return leader / 1e6, max(peaks.values(), default=0) / 1e6, everything / 1e6, seconds


PARTS: dict[str, harness.Part] = {
    "quality": partial(_measure_quality, split="test"),
    "real": partial(_measure_quality, split="real"),
    "speed": _measure_speed,
    "ocr": _measure_ocr,
    "memory": _measure_memory,
}

if __name__ == "__main__":
    harness.run(main)
