"""What `make bench` does around the programs that measure."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

#: Writes what it is told, as the programs of the parts do.
PROGRAM = """\
import json, pathlib, sys
print("tables")
print("12:00:00 measuring", file=sys.stderr)
if "--fail" in sys.argv:
    sys.exit("no luck today")
file = pathlib.Path(sys.argv[sys.argv.index("--json") + 1])
plan = {"jobs": 60, "batch": 100}
found = {"bare_ms": [1.0, 1.0], "work_ms": [5.0, 5.0], "seen_ms": [9.0, 9.0]}
found |= {"jobs_per_s": {"4": 19.0, "16": 78.0}, "plan": plan, "quick": "--quick" in sys.argv}
file.write_text(json.dumps(found))
"""


@pytest.fixture
def part(bench: Any) -> Any:
    parts = bench("publishing.parts")
    part = next(part for part in parts.PARTS if part.name == "knowledge")
    return replace(part, steps=(parts.Step("", "program.py"),))


@pytest.fixture
def running(bench: Any, tmp_path: Path) -> Any:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "program.py").write_text(PROGRAM)
    return bench("publishing.running")


def measured(running: Any, part: Any, tmp_path: Path, *, before: Any = None) -> Any:
    return running.measured(part, tmp_path, quick=True, before=before, bench=tmp_path / "bench")


def test_what_a_program_found_becomes_the_result_of_its_part(
    running: Any, part: Any, tmp_path: Path
) -> None:
    found = measured(running, part, tmp_path)

    assert (found.part, found.quick, found.failed, found.failures) == ("knowledge", True, None, ())
    assert [(aim.found, aim.reached) for aim in found.aims] == [(8.0, True), (0.95, True)]
    assert found.command == 'make bench ARGS="--only knowledge --quick"'
    assert len(found.load) == 1
    assert {"Secretary", "Python", "SQLite"} <= set(found.versions)
    assert (tmp_path / "samples" / "knowledge.txt").read_text() == "tables\n"
    assert json.loads((tmp_path / "samples" / "knowledge.json").read_text())["quick"] is True


def test_a_part_that_fails_keeps_the_figures_of_the_run_before(
    bench: Any, running: Any, part: Any, tmp_path: Path
) -> None:
    before = measured(running, part, tmp_path)
    step = bench("publishing.parts").Step("", "program.py", ("--fail",))

    found = measured(running, replace(part, steps=(step,)), tmp_path, before=before)

    assert found.failed.endswith("knowledge: 12:00:00 measuring no luck today")
    assert (found.tables, found.date) == (before.tables, before.date)


def test_a_part_that_never_worked_has_no_figures(
    bench: Any, running: Any, part: Any, tmp_path: Path
) -> None:
    step = bench("publishing.parts").Step("", "program.py", ("--fail",))

    found = measured(running, replace(part, steps=(step,)), tmp_path)

    assert (found.tables, found.aims) == ((), ())
    assert "no luck today" in found.failed


def test_a_part_that_fails_does_not_stop_the_others(
    bench: Any, part: Any, running: Any, tmp_path: Path
) -> None:
    step, program = bench("publishing.parts").Step, str(tmp_path / "bench" / "program.py")
    broken = replace(part, name="broken", steps=(step("", program, ("--fail",)),))
    whole = replace(part, steps=(step("", program),))
    results = tmp_path / "results"

    failed = bench("run").measure_all([broken, whole], results, tmp_path, quick=True)

    assert failed == ["broken"]
    kept = bench("publishing.result")
    assert "no luck today" in kept.read(results, "broken").failed
    assert kept.read(results, "knowledge").tables


def test_the_page_is_written_from_what_is_kept_and_a_change_by_hand_is_noticed(
    bench: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs, results = tmp_path / "docs", tmp_path / "results"
    asked = ["--page", "--results", str(results), "--docs", str(docs)]

    assert bench("run").main(asked) == 0
    page = docs / "benchmarks.md"
    assert page.read_text().count("**Not measured by `make bench` yet.**") == 7
    assert bench("run").main([*asked, "--check"]) == 0
    page.write_text(page.read_text() + "We are the best.")
    assert bench("run").main([*asked, "--check"]) == 1
    assert "Out of date: benchmarks.md. Run `make bench-page`." in capsys.readouterr().err


def test_a_program_that_takes_too_long_is_stopped(
    running: Any, part: Any, tmp_path: Path, bench: Any
) -> None:
    (tmp_path / "bench" / "sleeper.py").write_text("import time\ntime.sleep(600)\n")
    step = bench("publishing.parts").Step("", "sleeper.py")

    outcome = running.run_step(
        part, step, tmp_path, quick=False, limit_s=0.05, bench=tmp_path / "bench"
    )

    assert outcome.found is None
    assert outcome.words.startswith("it took more than")


def test_samples_of_another_time_are_taken_with_their_machine_and_load(
    bench: Any, tmp_path: Path
) -> None:
    told = "Some CPU, 2 cores, Linux 6, Python 3.11.7; 4 kB written and synced in 0.18 ms"
    told += "; load average before 2.7, after 2.5"
    found = {"bare_ms": [1.0], "work_ms": [5.0], "seen_ms": [30.0], "jobs_per_s": {"4": 10.0}}
    file = tmp_path / "samples.json"
    file.write_text(json.dumps({**found, "plan": {"jobs": 1, "batch": 1}, "machine": told}))

    (result,) = bench("publishing.taking").taken([f"knowledge={file}"], quick=False)

    assert (result.machine.cpu, result.machine.cores, result.machine.sync_ms) == (
        "Some CPU",
        2,
        0.18,
    )
    assert [(load.before, load.after) for load in result.load] == [(2.7, 2.5)]
    assert result.versions == {"Python": "3.11.7"}
    assert [aim.reached for aim in result.aims] == [False, False]


def test_ahead_and_behind_are_told_by_who_is_best(bench: Any) -> None:
    figures = bench("digests.figures")
    others = {"slow": 5.0, "quick": 2.0, "broken": None}

    more = figures.ahead("rate", 4.0, others, unit="/s")
    less = figures.ahead("time", 4.0, others, unit="ms", less_is_better=True)

    assert (more.reached, more.beside, more.ratio) == (False, "slow: 5.00", 0.8)
    assert (less.reached, less.beside, less.ratio) == (False, "quick: 2.00", 0.5)
    assert figures.ahead("rate", None, others, unit="/s").reached is False


def test_every_part_has_its_program_its_digest_and_its_remarks(bench: Any) -> None:
    home = bench("publishing.running").BENCH
    for part in bench("publishing.parts").PARTS:
        assert part.steps and all((home / step.program).exists() for step in part.steps)
        assert (home / "digests" / f"{part.name}.py").exists()
        told = bench("publishing.remarks").read(home / "remarks", part.name)
        assert told.title and told.measured and "Where we are behind, and why" in told.chapters
