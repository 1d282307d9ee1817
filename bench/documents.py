"""Quality and speed of document conversion, next to other tools.

    python bench/documents.py [--quick] [--only quality,real,speed,ocr,memory] [--json FILE]

Tools take turns, round after round; each has its own environment. Secretary is measured through
whole jobs: submitted over HTTP, queued, processed in child processes, stored, and awaited through
the event stream. `corpus/score.py` defines the quality measures.
"""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import harness
import quality
from corpus.corpus import Split
from corpus.files import Scan, mixed_pages, plain_pages, scan, variant
from corpus.manuals import documents
from corpus.prose import Language
from corpus.score import MEASURES, average, character_error_rate
from harness import WORK, Failed, Measure, log, output, recording_failure, take_turns
from processes import keep_highest, sampling
from report import Cell, Chart, Result, Samples, ahead, at_least, at_most, median, spread
from service import Done, Service, serving
from tools import PDF_TOOLS, PDFIUM, SECRETARY, read_one

PROCESSES = (1, 2)
WAYS = ("by path", "by upload")
#: Left out of a quick run: they take a minute for the corpus.
SLOWEST = ("pymupdf4llm", "markitdown")
#: Measured in every round; the others take seconds per file and are measured in the first round.
FAST = ("pdftotext", "pymupdf", "pdf-inspector")
SLOW = ("pdf_oxide", "pypdf", "xberg", "kreuzberg")
EXTRACTION_ONLY = "secretary, extraction only"
WARM_UP_PAGES = 10
CACHE_REPEATS = 20
SCANS: tuple[tuple[Language, int], ...] = (("en", 300), ("de", 200), ("en", 200), ("de", 300))
TESSERACT, OCRMYPDF = "tesseract, one core", "OCRmyPDF, one core"
OCR_LIMIT_S = 600
MEMORY_PROCESSES, SAMPLE_EVERY_S, MEMORY_DPI = 2, 0.05, 200
#: By the number of child processes.
TEXT_TARGETS, OCR_TARGETS = {1: 0.8, 2: 1.5}, {1: 0.95, 2: 1.8}
CACHED_TARGET_MS = 20
RATE, EXECUTION = "pages/s", "execution"


@dataclass(frozen=True)
class Plan:
    pages: int = 200
    rounds: int = 7
    mixed_rounds: int = 3
    every_tool: bool = True
    scans: tuple[tuple[Language, int], ...] = SCANS
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


def _ours(count: int, way: str = "") -> str:
    return f"secretary, {_processes(count)}" + (f", {way}" if way else "")


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
    kind = "real manuals" if split == "real" else "generated documents"
    title = f"Quality, {kind}"
    table = quality.table(rows, corpus.samples, title)
    result.add(title, table.head, table.rows, *table.charts)
    ours, *peers = [(row.tool, average(row.scores.values())) for row in rows if row.scores]
    for name in MEASURES:
        figures = {tool: averages[name] for tool, averages in peers}
        result.targets.append(ahead(f"{kind}: {name}", ours[1][name], figures, decimals=3))


def _measure_speed(result: Result, plan: Plan, root: Path) -> None:
    plain_file = plain_pages(root, plan.pages)
    files = [sample.pdf for sample in documents(WORK, "test").samples]
    mixed_file = mixed_pages(root, plan.pages, files)
    once: Sequence[str] = (*SLOW, "markitdown") if plan.every_tool else SLOW
    with ExitStack() as stack:
        services = {n: stack.enter_context(serving(root, root, processes=n)) for n in PROCESSES}
        for service in services.values():
            service.read(plain_pages(root, WARM_UP_PAGES))
        plain = measure_speed(result, services, plain_file, plan.rounds, once)
        log("speed: mixed pages")
        once = SLOW if plan.every_tool else ()
        mixed = measure_speed(result, services, mixed_file, plan.mixed_rounds, once)
        cached = _measure_cached(services[PROCESSES[0]], plain_file, root)
    columns = (RATE, EXECUTION, "x PDFium")
    head = ["", *(f"{kind} {name}" for kind in ("plain:", "mixed:") for name in columns)]
    names = list(dict.fromkeys(row for row, _ in plain))
    lines = [[name, *_speed_cells(plain, name), *_speed_cells(mixed, name)] for name in names]
    chart = Chart("speed", "Pages per second, plain text", "pages/s", [1])
    result.add("Speed", head, lines, chart)
    lines = []
    for way, jobs in cached.items():
        times, execution = [1000 * j.client_s for j in jobs], [1000 * j.execution_s for j in jobs]
        p95 = statistics.quantiles(times, n=20)[-1]
        lines.append([way, statistics.median(times), p95, statistics.median(execution)])
    head = ["submitted", "p50 ms", "p95 ms", "execution p50 ms"]
    result.add("A cached file", head, lines)
    for count, target in TEXT_TARGETS.items():
        ratio = median(plain.ratios(_ours(count, "by path"), PDFIUM.name, RATE))
        name = f"text layer, {_processes(count)}, x PDFium"
        result.targets.append(at_least(name, target, ratio, peer="PDFium"))
    times = [1000 * done.client_s for jobs in cached.values() for done in jobs]
    result.targets.append(at_most("cached file, p50", CACHED_TARGET_MS, median(times), "ms"))


def _speed_cells(samples: Samples, row: str) -> list[Cell]:
    if (row, RATE) not in samples:
        return [""] * 3
    _, rate, execution = samples.line(row, (RATE, EXECUTION))
    ratio: Cell = 1.0 if row == PDFIUM.name else spread(samples.ratios(row, PDFIUM.name, RATE))
    return [rate, execution or "", ratio]


def measure_speed(
    result: Result,
    services: Mapping[int, Service],
    file: Path,
    rounds: int,
    once: Sequence[str],
) -> Samples:
    """`once`: tools that are measured in the first round only."""
    rows: dict[str, Measure] = {PDFIUM.name: lambda _: {RATE: _tool_rate(PDFIUM.name, file)}}
    for count, service in services.items():
        rows |= {_ours(count, way): partial(_our_rate, service, file, way) for way in WAYS}
    rows[EXTRACTION_ONLY] = lambda _: {RATE: _tool_rate(SECRETARY.name, file)}
    for name in (*FAST, *once):

        def measure(number: int, name: str = name) -> Mapping[str, float]:
            return {} if number and name in once else {RATE: _tool_rate(name, file)}

        rows[name] = measure
    return take_turns(rows, rounds, result.failures)


def _our_rate(service: Service, file: Path, way: str, number: int) -> Mapping[str, float]:
    fresh = variant(file, file.parent, f"{number} {service.processes} {way}")
    done = service.read(fresh) if way == "by path" else service.upload(fresh)
    fresh.unlink()
    pages, expected = done.job["results"]["metadata"]["page_count"], _pages(file)
    if done.from_cache or pages != expected:
        raise Failed(f"{pages} pages, {'' if done.from_cache else 'not '}cached")
    return {RATE: pages / done.client_s, EXECUTION: pages / done.execution_s}


def _pages(file: Path) -> int:
    return int(file.stem.split("-")[1])


def _tool_rate(name: str, file: Path) -> float:
    warm_up = plain_pages(file.parent, WARM_UP_PAGES)
    return _pages(file) / read_one(PDF_TOOLS[name], file, warm_up=warm_up).wall_s[file.stem]


def _measure_cached(service: Service, file: Path, root: Path) -> dict[str, list[Done]]:
    """The same contents again: under the same name, then as an upload under another."""
    cached, other = variant(file, root, "cached"), root / "another-name.pdf"
    service.read(cached)
    other.write_bytes(cached.read_bytes())
    done = {
        "by path": [service.read(cached) for _ in range(CACHE_REPEATS)],
        "by upload": [service.upload(other) for _ in range(CACHE_REPEATS)],
    }
    if not all(one.from_cache for jobs in done.values() for one in jobs):
        raise Failed("a cached file was processed again")
    return done


#: Reads a scan in a round: the text, and the seconds it took.
OcrReader = Callable[[Scan, int], tuple[str, float]]


def _measure_ocr(result: Result, plan: Plan, root: Path) -> None:
    if not harness.has_program("tesseract", "tesseract-ocr", "tesseract-ocr-deu"):
        raise Failed("there is no tesseract: apt-get install tesseract-ocr tesseract-ocr-deu")
    scans = [scan(root, language, dpi, plan.scanned_pages) for language, dpi in plan.scans]
    with ExitStack() as stack:
        readers: dict[str, OcrReader] = {TESSERACT: _tesseract}
        for count in PROCESSES:
            service = stack.enter_context(serving(root, root, processes=count))
            readers[_ours(count)] = partial(_ocr_job, service)
        readers[OCRMYPDF] = partial(_ocrmypdf, result, root)
        warm_up = scan(root, "en", 100, 1)
        rows: dict[str, Measure] = {
            name: partial(_read_scans, reader, [warm_up, *scans])
            for name, reader in readers.items()
        }
        samples = take_turns(rows, plan.ocr_rounds, result.failures)
    names = [one.name for one in scans]
    head = [t for name in names for t in (f"{name}: pages/s", "x tesseract", "CER %")]
    lines: list[list[Cell]] = []
    for row in rows:
        line: list[Cell] = [row]
        for name in names:
            ratios = samples.ratios(row, TESSERACT, name)
            rates = samples.get((row, name), ())
            line += [spread(rates), spread(ratios), samples.median(row, f"{name}: CER")]
        lines.append(line)
    columns = [1 + 3 * number for number in range(len(scans))]
    chart = Chart("ocr", "Scanned pages per second", "pages/s", columns, names)
    result.add("OCR", ["", *head], lines, chart)
    for count, target in OCR_TARGETS.items():
        medians = [median(samples.ratios(_ours(count), TESSERACT, name)) for name in names]
        worst = min((ratio for ratio in medians if ratio), default=None)
        name = f"OCR, {_processes(count)}, x tesseract, worst scan"
        result.targets.append(at_least(name, target, worst, peer=TESSERACT))


def _read_scans(reader: OcrReader, scans: Sequence[Scan], number: int) -> Mapping[str, float]:
    """Pages per second and error rate by scan; the first scan only warms up."""
    figures: dict[str, float] = {}
    for one in scans if number == 0 else scans[1:]:
        text, seconds = reader(one, number)
        figures[one.name] = len(one.texts) / seconds
        figures[f"{one.name}: CER"] = 100 * character_error_rate(" ".join(one.texts), text)
    return figures


def _tesseract(one: Scan, number: int) -> tuple[str, float]:
    started, language = time.perf_counter(), one.tesseract_language
    texts = [_run("tesseract", str(image), "-", "-l", language) for image in one.images]
    return "\n".join(texts), time.perf_counter() - started


def _ocr_job(service: Service, one: Scan, number: int) -> tuple[str, float]:
    fresh = variant(one.pdf, one.pdf.parent, f"round {number}")
    options = {"extraction_method": "ocr", "ocr_language": one.tesseract_language}
    done = service.read(fresh, **options)
    if done.from_cache:
        raise Failed("the scan was cached")
    pages = done.job["results"]["metadata"]["text_contents"]
    return "\n".join(page["content"] for page in pages), done.client_s


def _ocrmypdf(result: Result, root: Path, one: Scan, number: int) -> tuple[str, float]:
    python = harness.environment("reader-ocrmypdf", ["ocrmypdf"])
    command = [str(python), "-m", "ocrmypdf"]
    result.versions["ocrmypdf"] = _run(*command, "--version").strip()
    sidecar, output = root / "sidecar.txt", root / "searchable.pdf"
    command += ["--jobs", "1", "--optimize", "0", "--output-type", "pdf", "--quiet"]
    command += ["--language", one.tesseract_language, "--sidecar", str(sidecar)]
    started = time.perf_counter()
    _run(*command, str(one.pdf), str(output))
    return sidecar.read_text(encoding="utf-8"), time.perf_counter() - started


def _run(*command: str) -> str:
    """With one thread: rows are compared core by core, and more threads slow Tesseract down."""
    env = os.environ | {"OMP_THREAD_LIMIT": "1"}
    return output(Path(command[0]).name, command, limit_s=OCR_LIMIT_S, env=env)


def _measure_memory(result: Result, plan: Plan, root: Path) -> None:
    """Each length in a service of its own: memory that was taken once may stay taken."""
    files = [("native", pages, plain_pages(root, pages)) for pages in plan.native_pages]
    files += [("ocr", pages, scan(root, "en", MEMORY_DPI, pages).pdf) for pages in plan.ocr_pages]
    lines: list[list[Cell]] = []
    for method, pages, file in files:
        figures: list[Cell] = [None] * 4
        with recording_failure(result.failures, f"memory, {method}, {pages} pages"):
            figures = _peaks(method, file, root)
        lines.append([method, f"{pages:,}", *figures])
    head = ["method", "pages", "service MB", "larger child MB", "all MB", "s"]
    result.add("Peak memory", head, lines)


def _peaks(method: str, file: Path, root: Path) -> list[Cell]:
    peaks: dict[int, float] = {}  # by process id, including processes that have ended

    def sample() -> None:
        keep_highest(peaks, {pid: size / 1e6 for (pid, _), size in tree.peak_bytes().items()})

    with serving(root, root, processes=MEMORY_PROCESSES) as service:
        tree = service.tree
        with sampling(sample, SAMPLE_EVERY_S):
            options = {"ocr_language": "eng"} if method == "ocr" else {}
            done = service.read(file, extraction_method=method, **options)
    everything, leader = sum(peaks.values()), peaks.pop(tree.leader)
    return [leader, max(peaks.values(), default=0), everything, done.client_s]


PARTS: dict[str, harness.Part] = {
    "quality": partial(_measure_quality, split="test"),
    "real": partial(_measure_quality, split="real"),
    "speed": _measure_speed,
    "ocr": _measure_ocr,
    "memory": _measure_memory,
}

if __name__ == "__main__":
    harness.run(main)
