"""The figures of the documents benchmark as tables."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

import report
from documents import ocr_speed, speed
from documents.memory import Peak
from documents.ocr_speed import Recognition
from documents.speed import Pace, Speed
from documents.tools import PDFIUM

QUALITY_NOTES = """\
On the "{split}" documents. words, order, headings, levels, cells: told in
`documents/score.py`. CPU s: of reading alone; of ours with the service, its store and files."""
SPEED_NOTES = """\
Medians of {rounds} rounds (mixed: {mixed}) on files of {pages} pages; "~": the highest was more
than 1.5 times the lowest. Plain: text in one column. Mixed: pages of the quality documents. Tools:
in one process that has read a file before. Ours: from the request to the stream's word that the
job is completed; "at work": from the job's start to its end. Times raw: round by round, over
pypdfium2. Cached: the plain file again, as the client sees it. The aims are for the plain file."""
OCR_NOTES = """\
Scans of {pages} pages each, {rounds} round(s). Tesseract reads the pictures that are in the PDFs.
One core: OMP_THREAD_LIMIT=1, one page after the other, a process for each, as the program is used.
Ours draws pages at a resolution of its own, so that scans of another are not read pixel by pixel
alike; compare the CER as well: characters to change for each one."""
MEMORY_NOTES = """\
The most resident memory at any time: of the process that serves and directs, of the largest of two
child processes, and of all processes added up (what they share is counted more than once)."""

#: By the number of child processes.
NATIVE_AIMS = {1: 0.8, 2: 1.5}
OCR_AIMS = {1: 0.95, 2: 1.8}
CACHED_MS_AIM = 20


def speed_table(plain: Speed, mixed: Speed) -> str:
    titles = ["pages/s", "at work", "times raw"]
    lines = [["", *(f"plain: {titles[0]}", *titles[1:]), *(f"mixed: {titles[0]}", *titles[1:])]]
    for name in plain.paces:
        cells = [*_paces(plain.paces[name]), *_paces(mixed.paces.get(name))]
        lines.append([name, *cells])
    return report.table(lines)


def _paces(pace: Pace | None) -> list[str]:
    if pace is None:
        return ["", "", ""]
    ratio = "1" if pace.name == PDFIUM.name else report.median(pace.times_raw)
    working = report.median(pace.working_per_s) if pace.working_per_s else ""
    return [report.median(pace.pages_per_s), working, ratio]


def cached_table(found: Speed) -> str:
    lines = [["a known file", "p50 ms", "p95 ms", "at work p50 ms"]]
    for way, times in found.cached_ms.items():
        highest = statistics.quantiles(times, n=20)[-1]
        middle, working = map(statistics.median, (times, found.cached_at_work_ms[way]))
        lines.append([way, *map(report.number, (middle, highest, working))])
    return report.table(lines)


def ocr_table(rows: Iterable[Recognition]) -> str:
    rows = list(rows)
    scans = list(dict.fromkeys(name for row in rows for name in row.pages_per_s))
    lines = [["", *(f"{name}: pages/s | times tesseract | CER %" for name in scans)]]
    lines = [[part for title in lines[0] for part in title.split(" | ")]]
    for row in rows:
        cells = []
        for name in scans:
            rate = row.error_rates.get(name)
            cells.append(report.median(row.pages_per_s.get(name, [])))
            cells.append(report.median(row.times_tesseract.get(name, [])))
            cells.append(report.number(None if rate is None else rate * 100))
        lines.append([row.name, *cells])
    return report.table(lines)


def memory_table(peaks: Sequence[Peak]) -> str:
    lines = [["peak memory", "pages", "service MB", "largest child MB", "all MB", "s"]]
    for peak in peaks:
        figures = (peak.service_mb, peak.child_mb, peak.all_mb, peak.seconds)
        cells = [report.number(None if peak.failure else figure) for figure in figures]
        lines.append([peak.method, f"{peak.pages:,}", *cells])
    return report.table(lines)


def aims(found: Speed | None, rows: Mapping[str, Recognition]) -> list[list[str]]:
    """What is aimed at, and what this run has; nothing where it was not measured."""
    lines = []
    if found:
        for count, aim in NATIVE_AIMS.items():
            ratios = found.pace(speed.our_name(count, "by path")).times_raw
            lines.append(_at_least(f"native, {count} process(es), times raw", aim, ratios))
        times = [time for way in found.cached_ms.values() for time in way]
        value = statistics.median(times) if times else None
        met = value is not None and value < CACHED_MS_AIM
        aim_text = f"< {CACHED_MS_AIM}"
        lines.append(["cached, ms", aim_text, report.number(value), "yes" if met else "no"])
    if rows:
        for count, aim in OCR_AIMS.items():
            by_scan = rows[ocr_speed.our_name(count)].times_tesseract.values()
            ratios = min(by_scan, key=statistics.median, default=[])
            name = f"OCR, {count} process(es), times tesseract, worst scan"
            lines.append(_at_least(name, aim, ratios))
    return [["aim", "wanted", "found", "reached"], *lines] if lines else []


def failures(
    speeds: Iterable[Speed | None], rows: Mapping[str, Recognition], peaks: Sequence[Peak]
) -> list[str]:
    paces = [pace for found in speeds if found for pace in found.paces.values()]
    said = [f"{pace.name}: {failure}" for pace in paces for failure in pace.failures]
    said += [f"{row.name}: {failure}" for row in rows.values() for failure in row.failures]
    said += [f"memory, {p.method}, {p.pages} pages: {p.failure}" for p in peaks if p.failure]
    return list(dict.fromkeys(said))


def _at_least(name: str, aim: float, ratios: Sequence[float]) -> list[str]:
    value = statistics.median(ratios) if ratios else None
    reached = "yes" if value is not None and value >= aim else "no"
    return [name, f">= {aim}", report.number(value), reached]
