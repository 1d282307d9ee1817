"""What is made of the samples of each part: from the very forms that its program fills in."""

import json
from dataclasses import asdict
from typing import Any


def digest(bench: Any, part: str, **steps: Any) -> Any:
    """By the way of a file, as what the program found comes."""
    found = {name.removeprefix("_"): json.loads(json.dumps(run)) for name, run in steps.items()}
    return bench(f"digests.{part}").digest(found)


def verdicts(found: Any) -> dict[str, Any]:
    return {aim.what: aim.reached for aim in found.aims}


def engine_row(bench: Any, name: str, rate: float, back_s: float | None, **extra: float) -> Any:
    report, measure = bench("engine_report"), bench("measure")
    return report.Row(
        name,
        about=report.About("1.0", "2 processes", durable=True, extra=bool(extra)),
        enqueued_per_s=[rate, rate * 2],
        enqueued_by_many_per_s=[rate],
        drained_per_s=[rate],
        latency=[measure.Latency(1000 / rate, 2000 / rate)],
        idle=measure.Idle(0.1, None),
        recovery=report.Recovery(60, back_s),
        extra=extra,
    )


def test_the_engine_is_compared_with_the_best_of_its_peers(bench: Any) -> None:
    ratios = {"claim, p50: ratio": 1.1, "newest page, p50: ratio": 1.6, "claim, p95: ratio": 9.0}
    rows = [
        engine_row(bench, "secretary-sqlite", 50, 1.0, **ratios),
        engine_row(bench, "secretary-loop", 200, 0.8, **{
            "in one process, call to start, p50 ms": 1.1
        }),
        engine_row(bench, "rq", 20, None),
        engine_row(bench, "huey-redis", 100, None),
    ]  # fmt: skip
    rows[2].failures.append("latency: it fell asleep")
    plan = asdict(bench("engine").QUICK)

    found = digest(bench, "engine", _={"plan": plan, "rows": [asdict(row) for row in rows]})

    assert verdicts(found) == {
        "enqueues/s, one caller": True,
        "enqueues/s, 32 callers": True,
        "drained/s, handlers on the loop": True,
        "drained/s, handlers in child processes": False,
        "enqueue to start between two processes, p50": None,
        "kill -9 in mid-job to its next start": True,
        "CPU of an idle worker, % of one core": None,
        "secretary-loop: enqueue to start in one process, p50": False,
        "secretary-sqlite: 1,000,000 stored jobs over 10,000, worst p50 (newest page)": False,
    }
    (behind,) = [aim for aim in found.aims if aim.what.endswith("child processes")]
    assert (behind.beside, behind.ratio) == ("huey-redis: 100", 0.5)
    (back,) = [aim for aim in found.aims if aim.what.startswith("kill")]
    assert (back.beside, back.ratio) == ("none within 60 s", 60.0)
    assert found.tables[0].rows[2][8] == "> 60"
    assert found.failures == ("rq: latency: it fell asleep",)
    assert found.versions == {"rq": "1.0", "huey": "1.0"}


def test_the_api_is_compared_with_the_faster_bare_route_round_by_round(bench: Any) -> None:
    api, load = bench("api"), bench("load")

    def row(name: str, rate: float, *, bare: bool) -> Any:
        loads = [load.Load(rate, p50_ms=1, p99_ms=2, cpu_us=300), load.Load(rate, 1, 2, 300)]
        accepted = {n: loads for n in api.CONNECTIONS}
        return api.Row(name, bare, accepted=accepted, polls=loads, memory_mb=[70.0])

    rows = [
        row("secretary", 100, bare=False),
        row("secretary, at work", 80, bare=False),
        row("bare, direct", 240, bare=True),
        row("bare, thread", 160, bare=True),
    ]
    run = {"plan": asdict(api.QUICK), "rows": [asdict(one) for one in rows], "streams": None}

    found = digest(bench, "api", _=run)

    assert [(aim.found, aim.reached) for aim in found.aims] == [
        (2.4, False), (2.4, False), (2.4, False), (2.4, None), (3.0, None),
    ]  # fmt: skip
    assert found.tables[1].rows[0][-1] == 2.4
    assert found.tables[1].rows[2][-1] == ""


def test_two_runs_of_the_dashboard_make_one_part(bench: Any) -> None:
    dashboard, views = bench("dashboard"), bench("dashboard_views")

    def run(store: str, ms: float) -> Any:
        times = {"jobs": views.Timing(ms, ms, ms), "job": views.Timing(1, 1, 1)}
        row = dashboard.Row(store, few=times, many=times, usable=times)
        return {"plan": asdict(dashboard.QUICK), "rows": [asdict(row)]}

    found = digest(bench, "dashboard", sqlite=run("sqlite", 40), mongodb=run("mongodb", 140))

    assert list(verdicts(found).values()) == [True, True, False, True]
    assert found.aims[2].what == "mongodb, 100,000 jobs: slowest request, p95 (jobs)"
    assert found.tables[0].rows[0] == ("jobs", 40, 40, 40, 1.0, 140, 140, 140, 1.0)
    assert found.charts[0].rows["jobs"] == (40, 140)


def test_documents_are_compared_by_every_measure_with_every_tool(bench: Any) -> None:
    pages, quality, score = bench("pages"), bench("quality"), bench("documents.score")
    speed, ocr = bench("documents.speed"), bench("documents.ocr_speed")

    def scores(tool: str, cells: float) -> Any:
        mark = score.Score(0.9, 0.9, 0.9, None, cells)
        return quality.Row(tool, "1.0", 2.0, {"a": mark}, [])

    pace = speed.Speed(200)
    for name, ratio in (("pypdfium2", 1.0), (speed.our_name(1, "by path"), 0.9)):
        paces = speed.Pace(name, pages_per_s=[ratio * 1000], times_raw=[ratio])
        pace.paces[name] = paces
    pace.cached_ms = {"by path": [10.0, 30.0]}
    pace.cached_at_work_ms = {"by path": [5.0, 5.0]}
    rows = {
        name: ocr.Recognition(name, {"en": [1.0]}, {"en": [ratio]}, {"en": 0.01})
        for name, ratio in ((ocr.TESSERACT, 1.0), (ocr.our_name(1), 1.2), (ocr.our_name(2), 1.7))
    }
    run = pages.Run(scores=[scores("secretary", 0.8), scores("rival", 0.9)], speed=pace, mixed=pace)
    run.ocr, run.memory = rows, [bench("documents.memory").Peak("native", 10, failure="lost")]
    real = pages.Run(scores=[scores("secretary", 0.8), scores("rival", 0.7)])
    plan = {"plan": asdict(pages.QUICK)}

    found = digest(bench, "documents", _={**plan, **asdict(run)}, real={**plan, **asdict(real)})

    seen = verdicts(found)
    assert seen["documents of the bench: cells"] is False
    assert seen["documents of others: cells"] is True
    assert seen["documents of the bench: words"] is False  # as good is not ahead
    assert seen["native text, 1 process, times raw PDFium"] is True
    assert seen["native text, 2 processes, times raw PDFium"] is False  # not measured
    assert seen["a known file of the same pages, p50"] is False
    assert seen["scans, 1 process, times Tesseract, worst scan"] is True
    assert seen["scans, 2 processes, times Tesseract, worst scan"] is False
    assert found.failures == ("memory, native, 10 pages: lost",)
    assert {chart.name for chart in found.charts} == {"quality", "quality-real", "speed", "ocr"}


def test_recordings_are_compared_with_every_bare_engine(bench: Any) -> None:
    media, hearing = bench("media"), bench("recordings.hearing")
    names = [tool.name for tool in bench("recordings.engines").YARDSTICKS]
    names += [hearing.our_name(1), hearing.our_name(2)]
    paces = {
        name: hearing.Pace(name, "1.0", [10.0], [6.0], [9.0], 0.05, {one: [1.5] for one in names})
        for name in names
    }
    decoding = bench("recordings.decoding").Decoding("mp3", 60, [2.0], [2.0], [1.0], [1.0], [0.1])
    decoding.times_plain = [0.5]
    run = media.Run(hearing=hearing.Hearing(60, 100, 2, paces), decoding=[decoding])

    found = digest(bench, "media", _={"plan": asdict(media.QUICK), **asdict(run)})

    assert list(verdicts(found).values()) == [True, False, True, False, True, False, None]
    assert found.versions == {"faster-whisper": "1.0"}


def test_many_workers_are_compared_with_celery_and_rq(bench: Any) -> None:
    plan, durable = bench("scaling.plan"), bench("scaling.durable")
    throughput, documents = bench("scaling.throughput"), bench("scaling.documents")
    report, costs = bench("engine_report"), bench("scaling.costs")

    def row(name: str, rate: float, back_s: float | None) -> Any:
        about, back = report.About("1.0", "2 processes"), report.Recovery(60, back_s)
        return durable.Row(name, about, [rate], [rate], [rate], back)

    sample = throughput.Throughput(100, 1, 2, 3, 4, 5)
    run = plan.Run(
        rounds=1,
        curves={"noop": {1: [sample], 2: [sample]}},
        wake_ups={1: throughput.WakeUp(1, 2, 3, 4, 5)},
        documents={
            kind: {1: [documents.Rate(1, 1, 1)], 2: [documents.Rate(rate, 1, 1)]}
            for kind, rate in (("scans", 1.9), ("texts", 1.5))
        },
        durable=[
            row("secretary, isolated", 90, 3.0),
            row("secretary, on the loop", 300, 2.0),
            row("celery", 100, None),
            row("rq", 10, 40.0),
        ],
        costs={"SQLite": costs.Cost(None, 1, 2, 3, None)},
    )

    found = digest(bench, "scale", _={"plan": asdict(plan.QUICK), **asdict(run)})

    assert list(verdicts(found).values()) == [
        *(True, False),  # scans and texts with two workers
        *(False, False, False, True, True, True),  # rates, isolated and on the loop
        *(True, True),  # recovery
    ]
    assert [aim.beside for aim in found.aims[-2:]] == ["rq: 40.0", "rq: 40.0"]
    assert len(found.tables) == 5
    assert found.charts[0].rows == {"do nothing": (100, 100)}
