"""What the page of all benchmarks says, from results that are made up."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

REMARKS = """\
# The quick part

It measures how quick things are.

## Where we are behind, and why

The disk is slow.
"""


@pytest.fixture
def result(bench: Any) -> Any:
    kept = bench("publishing.result")
    return kept.Result(
        part="quick",
        date="2026-11-15T20:15+00:00",
        took_s=312.0,
        command='make bench ARGS="--only quick"',
        machine=kept.Machine("Some CPU", 2, "Linux 6", memory_gb=8.2, sync_ms=0.25),
        versions={"Secretary": "0.1.0", "tortoise": "3.2"},
        load=(kept.Load("", 0.1, 2.8),),
        quick=False,
        plan={"rounds": 3},
        tables=(
            kept.Table(
                ("", "jobs/s", "p50 ms"),
                (
                    ("secretary", (900.0, 1000.0, 1100.0), 1.5),
                    ("tortoise", (100.0, 150.0, 200.0), None),
                ),
                notes="Medians of 3 rounds.",
                title="Jobs",
            ),
        ),
        charts=(
            kept.Chart(
                "rates",
                "bars",
                "Jobs a second",
                "jobs/s",
                ("jobs/s",),
                {"secretary": (1000.0,), "tortoise": (150.0,)},
            ),
        ),
        aims=(
            kept.Aim("jobs/s", "ahead of all", 1000.0, "/s", True, "tortoise: 150", 6.67),
            kept.Aim("time to start", "≤ 1 ms", 1.5, "ms", False),
            kept.Aim("idle CPU", "", 0.3, "%", None, "tortoise: 0.1", 0.33),
        ),
    )


@pytest.fixture
def remarks(tmp_path: Path) -> Path:
    directory = tmp_path / "remarks"
    directory.mkdir()
    (directory / "quick.md").write_text(REMARKS)
    (directory / "slow.md").write_text("# The slow part\n\nIt measures nothing.\n")
    return directory


@pytest.fixture
def page(bench: Any, result: Any, remarks: Path, tmp_path: Path) -> Iterator[str]:
    bench("publishing.result").write(result, tmp_path / "results")
    files = bench("publishing.page").files(tmp_path / "results", remarks, ["quick", "slow"])
    yield files["benchmarks.md"]


def test_what_is_kept_can_be_read_again(bench: Any, result: Any, tmp_path: Path) -> None:
    kept = bench("publishing.result")

    kept.write(result, tmp_path)

    assert kept.read(tmp_path, "quick") == result
    assert kept.read(tmp_path, "slow") is None


def test_what_is_kept_has_the_same_outer_form_for_every_part(
    bench: Any, result: Any, tmp_path: Path
) -> None:
    path = bench("publishing.result").write(result, tmp_path)

    assert set(json.loads(path.read_text())) == {
        *("part", "date", "took_s", "command", "machine", "versions", "load", "quick", "plan"),
        *("figures", "aims", "failures", "failed"),
    }


def line(page: str, start: str) -> str:
    return next(one for one in page.splitlines() if one.startswith(start))


def test_behind_is_shown_as_behind(page: str) -> None:
    assert line(page, "| time to start") == (
        "| time to start | ≤ 1 ms | 1.50 ms | **missed** |  |  |"
    )
    assert "| 0.30% | **behind** | tortoise: 0.1 | 0.33 |" in page
    assert "| 1,000/s | reached | tortoise: 150 | 6.67 |" in page
    assert line(page, "| [The quick part]").endswith("| 1 of 2 | time to start; idle CPU |")


def test_a_part_that_was_not_measured_is_named_with_its_command(page: str) -> None:
    assert line(page, "| [The slow part]") == "| [The slow part](#the-slow-part) | not yet |  |  |"
    section = page.partition("## The slow part")[2]
    assert (
        '**Not measured by `make bench` yet.** To do it: `make bench ARGS="--only slow"`' in section
    )


def test_a_section_tells_when_where_and_how_busy_the_machine_was(page: str) -> None:
    section = page.partition("## The quick part")[2]
    assert "Measured on 15 November 2026 in 5 min; 2 cores (Some CPU), Linux 6" in section
    assert "Load average: 0.1 before, 2.8 after." in section
    assert "Versions: Secretary 0.1.0, tortoise 3.2." in section
    assert '`make bench ARGS="--only quick"`' in section


def test_figures_come_with_their_notes_and_what_was_written_by_hand(page: str) -> None:
    section = page.partition("## The quick part")[2].partition("## The slow part")[0]
    assert "| secretary |  1,000 |   1.50 |" in section
    assert "| tortoise  |   ~150 | failed |" in section  # from 100 to 200 is not steady
    assert "Medians of 3 rounds." in section
    assert "It measures how quick things are." in section
    assert "### Where we are behind, and why\n\nThe disk is slow." in section
    assert "![Jobs a second](img/bench-quick-rates.svg)" in section


def test_what_could_not_be_measured_is_said(bench: Any, result: Any, remarks: Path) -> None:
    page, told = bench("publishing.page"), bench("publishing.remarks").read(remarks, "quick")
    broken = replace(result, quick=True, failures=("tortoise: asleep",), failed="it fell over")

    text = page.page({"quick": broken}, {"quick": told})

    assert "(a quick look, parts of it failed, a later run failed)" in text
    assert "- tortoise: asleep" in text
    assert "**A later run failed, so these figures are of the run before:** it fell over" in text
    assert "**A quick look, with few samples: not to be quoted.**" in text


def test_the_same_results_give_the_same_page(
    bench: Any, result: Any, remarks: Path, page: str, tmp_path: Path
) -> None:
    write = bench("publishing.page").write
    files = bench("publishing.page").files(tmp_path / "results", remarks, ["quick", "slow"])
    docs = tmp_path / "docs"
    (docs / "img").mkdir(parents=True)
    (docs / "img" / "bench-quick-gone.svg").touch()
    (docs / "img" / "dashboard.png").touch()

    written = write(files, docs)

    assert files["benchmarks.md"] == page
    assert sorted(path.name for path in written) == ["bench-quick-rates.svg", "benchmarks.md"]
    assert write(files, docs) == []
    assert sorted(path.name for path in (docs / "img").iterdir()) == [
        "bench-quick-rates.svg",
        "dashboard.png",
    ]


def test_charts_have_a_title_units_and_the_aim_for_those_who_cannot_see_them(bench: Any) -> None:
    charts = bench("charts")
    drawn = charts.bars("Waits <ms>", {"a": [None]}, ["p95"], unit="ms", aim=100)
    curve = charts.lines("Rates", ["1", "2"], {"x": [1, None]}, unit="jobs/s", axis="workers")

    svg = ElementTree.fromstring(drawn)
    names = "{http://www.w3.org/2000/svg}"
    assert svg.get("role") == "img"
    assert (svg.findtext(f"{names}title") or "") == "Waits <ms>"
    texts = [text.text for text in svg.iter(f"{names}text")]
    assert {"aim: 100", "ms", "none"} <= set(texts)
    words = [text.text for text in ElementTree.fromstring(curve).iter(f"{names}text")]
    assert {"jobs/s", "workers", "x"} <= set(words)
