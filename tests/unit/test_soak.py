"""The verdict of a soak test: what counts as flat, and how it is reported."""

import random
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

#: Half an hour, a sample every five seconds.
MOMENTS = [5.0 * number for number in range(360)]


@pytest.fixture
def series(bench: Any) -> Any:
    return bench("soak_series")


def noisy(level: float, slope: float = 0.0) -> list[float]:
    dice = random.Random(1)
    return [level + slope * at + dice.uniform(-5, 5) for at in MOMENTS]


def test_noise_about_a_level_is_flat(series: Any) -> None:
    judged = series.judge(MOMENTS, noisy(200), series.Tolerance(0.1, 5))
    assert judged.is_flat
    assert judged.level == pytest.approx(200, abs=1)


def test_what_grows_all_the_time_is_not_however_slowly(series: Any) -> None:
    judged = series.judge(MOMENTS, noisy(200, 0.02), series.Tolerance(0.1, 5))
    assert not judged.is_flat
    assert judged.growth == pytest.approx(0.02 * 1200, rel=0.1)  # of the last twenty minutes


def test_warming_up_is_no_growth(series: Any) -> None:
    values = [min(200.0, 20 + at) for at in MOMENTS]
    assert series.judge(MOMENTS, values, series.Tolerance(0.0, 1)).is_flat


def test_what_is_filled_and_emptied_again_and_again_is_flat(series: Any) -> None:
    values = [at % 60 for at in MOMENTS]
    assert series.judge(MOMENTS, values, series.Tolerance(0.1, 1)).is_flat


def test_single_peaks_do_not_matter_wherever_they_are(series: Any) -> None:
    values = [900.0 if number % 50 == 49 else 100.0 for number in range(len(MOMENTS))]
    assert series.judge(MOMENTS, values, series.Tolerance(0.0, 1)).is_flat


def test_too_few_samples_tell_nothing(series: Any) -> None:
    with pytest.raises(ValueError, match="too few"):
        series.judge(MOMENTS[:9], [1.0] * 9, series.Tolerance(0.1, 1))


def test_a_series_that_grows_is_named_and_all_are_drawn(series: Any) -> None:
    taken = [
        series.Sample(at, {"memory: service": 100 + at, "threads: service": 7.0}) for at in MOMENTS
    ]
    columns = series.columns(taken)
    judged = series.verdicts(MOMENTS, columns)
    (message,) = series.growing(judged)
    assert message.startswith("memory: service grew by ")
    assert "NO |" in series.table(columns, judged)
    drawn = ElementTree.fromstring(series.drawing("A soak", MOMENTS, columns))
    assert {"Memory", "Threads", "service"} <= set(drawn.itertext())


def test_a_process_is_measured_with_its_files_and_directories(series: Any, tmp_path: Path) -> None:
    (tmp_path / "data" / "jobs" / "job-1" / "1.scratch").mkdir(parents=True)
    (tmp_path / "data" / "cache").mkdir()
    (tmp_path / "data" / "cache" / "page").write_bytes(b"x" * 2**20)
    with subprocess.Popen(["sleep", "60"]) as process:
        values = series.take_sample(process.pid, tmp_path / "data", tmp_path)
        process.kill()
    assert values["processes: other"] == 1
    assert values["memory: other"] > 0
    assert values["open files: other"] > 0
    assert values["directories: scratch"] == 1
    assert values["size: cache"] == 1
