"""Reading documents beside other tools."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import page_report
from documents import ocr_speed, speed
from documents.score import MEASURES
from documents.tools import PDFIUM, SECRETARY
from publishing.result import Aim, Cell, Chart, Digest, Table

from .figures import Found, ahead, at_least, below, middle, spread, text_of

#: The steps: documents that the bench makes, and documents that others made.
MADE, REAL = "", "real"


def digest(found: Mapping[str, Found]) -> Digest:
    main = found.get(MADE) or found[REAL]
    tables: list[Table] = []
    charts: list[Chart] = []
    aims: list[Aim] = []
    for step, run in found.items():
        if run["scores"]:
            tables.append(_quality(run, step))
            charts.append(_quality_chart(run["scores"], step))
            aims += _quality_aims(run["scores"], step)
    if main["speed"] and main["mixed"]:
        tables += [_speed(main), _cached(main["speed"])]
        charts.append(_speed_chart(main["speed"]))
        aims += _speed_aims(main["speed"])
    if main["ocr"]:
        tables.append(_ocr(main))
        charts.append(_ocr_chart(main["ocr"]))
        aims += _ocr_aims(main["ocr"])
    if main["memory"]:
        tables.append(_memory(main["memory"]))
    scores = [row for run in found.values() for row in run["scores"]]
    return Digest(
        tables=tuple(tables),
        charts=tuple(charts),
        aims=tuple(aims),
        plan=main["plan"],
        versions={r["tool"]: r["version"] for r in scores if r["tool"] != SECRETARY.name},
        failures=tuple(dict.fromkeys(f for run in found.values() for f in _failures(run))),
    )


def _whose(step: str) -> str:
    return "documents of others" if step == REAL else "documents of the bench"


def _averages(row: Found) -> dict[str, float | None]:
    """Of each measure, over the documents that have it."""
    marks = row["scores"].values()
    kept = {name: [m[name] for m in marks if m[name] is not None] for name in MEASURES}
    return {name: statistics.mean(values) if values else None for name, values in kept.items()}


def _quality(run: Found, step: str) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for row in run["scores"]:
        marks = ("" if value is None else f"{value:.3f}" for value in _averages(row).values())
        spent = row["cpu_s"] if row["scores"] else "missing"
        rows.append((row["tool"], row["version"], *marks, spent))
    notes = [text_of(page_report.QUALITY_NOTES.format(split=REAL if step == REAL else "test"))]
    if run["missing"]:
        notes.append(f"Producers that were missing: {', '.join(run['missing'])}.")
    title = f"Quality, {_whose(step)}"
    head = ("", "version", *MEASURES, "CPU s")
    return Table(head, tuple(rows), "\n\n".join([*notes, *run["tables"]]), title)


def _quality_chart(scores: Sequence[Found], step: str) -> Chart:
    """Of the tools that give headings and tables at all."""
    averages = {row["tool"]: _averages(row) for row in scores}
    measures = ("order", "headings", "cells")
    drawn: dict[str, tuple[float | None, ...]] = {
        tool: tuple(marks[name] for name in measures)
        for tool, marks in averages.items()
        if marks["headings"] or marks["cells"]
    }
    name, title = "quality-real" if step == REAL else "quality", f"Quality, {_whose(step)}"
    return Chart(name, "bars", title, "F1; order: share in order", measures, drawn)


def _quality_aims(scores: Sequence[Found], step: str) -> Iterator[Aim]:
    averages = {row["tool"]: _averages(row) for row in scores if row["scores"]}
    ours = averages.pop(SECRETARY.name, None)
    if ours is None or not averages:
        return
    for name in MEASURES:
        others = {tool: marks[name] for tool, marks in averages.items()}
        what = f"{_whose(step)}: {name}"
        yield ahead(what, ours[name], others, unit="", decimals=3)


def _speed(run: Found) -> Table:
    plain, mixed, plan = run["speed"]["paces"], run["mixed"]["paces"], run["plan"]
    titles = ("pages/s", "at work", "times raw")
    rows = tuple((name, *_paces(plain[name]), *_paces(mixed.get(name))) for name in plain)
    notes = page_report.SPEED_NOTES.format(
        pages=plan["pages"], rounds=plan["rounds"], mixed=plan["mixed_rounds"]
    )
    head = ("", f"plain: {titles[0]}", *titles[1:], f"mixed: {titles[0]}", *titles[1:])
    return Table(head, rows, text_of(notes), title="Speed")


def _paces(pace: Found | None) -> tuple[Cell, ...]:
    if pace is None:
        return ("", "", "")
    ratio = 1.0 if pace["name"] == PDFIUM.name else spread(pace["times_raw"])
    working = spread(pace["working_per_s"]) if pace["working_per_s"] else ""
    return spread(pace["pages_per_s"]), working, ratio


def _speed_chart(found: Found) -> Chart:
    rows = {name: (middle(pace["pages_per_s"]),) for name, pace in found["paces"].items()}
    title = "Pages a second, plain text in one column"
    return Chart("speed", "bars", title, "pages/s", ("pages/s",), rows)


def _cached(found: Found) -> Table:
    rows = tuple(
        (way, statistics.median(times), statistics.quantiles(times, n=20)[-1], middle(working))
        for way, times in found["cached_ms"].items()
        for working in [found["cached_at_work_ms"][way]]
    )
    head = ("a known file", "p50 ms", "p95 ms", "at work p50 ms")
    return Table(head, rows, title="From the cache")


def _speed_aims(found: Found) -> Iterator[Aim]:
    for count, aim in page_report.NATIVE_AIMS.items():
        pace = found["paces"].get(speed.our_name(count, "by path"))
        what = f"native text, {count} process{'es' if count > 1 else ''}, times raw PDFium"
        ratio = middle(pace["times_raw"]) if pace else None
        yield at_least(what, aim, ratio, unit="times", beside="raw PDFium")
    times = [time for way in found["cached_ms"].values() for time in way]
    what = "a known file of the same pages, p50"
    yield below(what, page_report.CACHED_MS_AIM, middle(times), unit="ms")


def _ocr(run: Found) -> Table:
    rows = list(run["ocr"].values())
    scans = list(dict.fromkeys(name for row in rows for name in row["pages_per_s"]))
    head = [("pages/s", "times tesseract", "CER %") for _ in scans]
    titles = (
        f"{scan}: {title}" if number == 0 else title
        for scan, column in zip(scans, head, strict=True)
        for number, title in enumerate(column)
    )
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        cells: list[Cell] = []
        for name in scans:
            rate = row["error_rates"].get(name)
            cells.append(spread(row["pages_per_s"].get(name, [])))
            cells.append(spread(row["times_tesseract"].get(name, [])))
            cells.append(None if rate is None else rate * 100)
        lines.append((row["name"], *cells))
    plan: Mapping[str, Any] = run["plan"]
    notes = page_report.OCR_NOTES.format(pages=plan["scanned_pages"], rounds=plan["ocr_rounds"])
    return Table(("", *titles), tuple(lines), text_of(notes), title="Scans")


def _ocr_chart(rows: Found) -> Chart:
    scans = tuple(dict.fromkeys(name for row in rows.values() for name in row["pages_per_s"]))
    drawn = {
        row["name"]: tuple(middle(row["pages_per_s"].get(name, [])) for name in scans)
        for row in rows.values()
    }
    return Chart("ocr", "bars", "Scanned pages a second", "pages/s", scans, drawn)


def _ocr_aims(rows: Found) -> Iterator[Aim]:
    for count, aim in page_report.OCR_AIMS.items():
        by_scan = rows[ocr_speed.our_name(count)]["times_tesseract"].values()
        worst = min((statistics.median(ratios) for ratios in by_scan), default=None)
        what = f"scans, {count} process{'es' if count > 1 else ''}, times Tesseract, worst scan"
        yield at_least(what, aim, worst, unit="times", beside="tesseract on one core")


def _memory(peaks: Sequence[Found]) -> Table:
    keys = ("service_mb", "child_mb", "all_mb", "seconds")
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (p["method"], f"{p['pages']:,}", *(None if p["failure"] else p[key] for key in keys))
        for p in peaks
    )
    head = ("peak memory", "pages", "service MB", "largest child MB", "all MB", "s")
    return Table(head, rows, text_of(page_report.MEMORY_NOTES), title="Memory")


def _failures(run: Found) -> Iterator[str]:
    yield from run["failures"]
    for row in run["scores"]:
        yield from (f"{row['tool']}: {failure}" for failure in row["failures"])
    for found in (run["speed"], run["mixed"]):
        for pace in found["paces"].values() if found else ():
            yield from (f"{pace['name']}: {failure}" for failure in pace["failures"])
    for row in run["ocr"].values():
        yield from (f"{row['name']}: {failure}" for failure in row["failures"])
    for peak in run["memory"]:
        if peak["failure"]:
            yield f"memory, {peak['method']}, {peak['pages']} pages: {peak['failure']}"
