"""The verdict of a soak: what counts as flat, and what is drawn and said of it."""

import random
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

#: Half an hour, a sample every five seconds.
MOMENTS = [5.0 * number for number in range(360)]


@pytest.fixture
def trend(bench: Any) -> Any:
    return bench("soaking.trend")


@pytest.fixture
def verdict(bench: Any) -> Any:
    return bench("soaking.verdict")


@pytest.fixture
def samples(bench: Any) -> Any:
    return bench("soaking.samples")


def noisy(level: float, slope: float = 0.0) -> list[float]:
    dice = random.Random(1)
    return [level + slope * at + dice.uniform(-5, 5) for at in MOMENTS]


def test_noise_about_a_level_is_flat(trend: Any) -> None:
    judged = trend.judge(MOMENTS, noisy(200), trend.Tolerance(0.1, 5))
    assert judged.is_flat
    assert judged.level == pytest.approx(200, abs=1)


def test_what_grows_all_the_time_is_not_however_slowly(trend: Any) -> None:
    judged = trend.judge(MOMENTS, noisy(200, 0.02), trend.Tolerance(0.1, 5))
    assert not judged.is_flat
    assert judged.growth == pytest.approx(0.02 * 1200, rel=0.1)  # of the last twenty minutes


def test_warming_up_is_no_growth(trend: Any) -> None:
    values = [min(200.0, 20 + at) for at in MOMENTS]
    assert trend.judge(MOMENTS, values, trend.Tolerance(0.0, 1)).is_flat


def test_what_is_filled_and_emptied_again_and_again_is_flat(trend: Any) -> None:
    values = [at % 60 for at in MOMENTS]
    assert trend.judge(MOMENTS, values, trend.Tolerance(0.1, 1)).is_flat


def test_single_peaks_do_not_matter_wherever_they_are(trend: Any) -> None:
    values = [900.0 if number % 50 == 49 else 100.0 for number in range(len(MOMENTS))]
    assert trend.judge(MOMENTS, values, trend.Tolerance(0.0, 1)).is_flat


def test_too_few_samples_tell_nothing(trend: Any) -> None:
    with pytest.raises(ValueError, match="too few"):
        trend.judge(MOMENTS[:9], [1.0] * 9, trend.Tolerance(0.1, 1))


def test_a_series_that_grows_is_named_and_all_are_drawn(verdict: Any, samples: Any) -> None:
    taken = [
        samples.Sample(at, {"memory: service": 100 + at, "threads: service": 7.0}) for at in MOMENTS
    ]
    series = verdict.columns(taken)
    judged = verdict.verdicts(MOMENTS, series)
    (told,) = verdict.growing(judged)
    assert told.startswith("memory: service grew by ")
    assert "NO |" in verdict.table(series, judged)
    drawn = ElementTree.fromstring(verdict.drawing("A soak", MOMENTS, series))
    assert {"Memory", "Threads", "service"} <= set(drawn.itertext())


def test_a_process_is_measured_with_its_files_and_directories(samples: Any, tmp_path: Path) -> None:
    (tmp_path / "data" / "jobs" / "job-1" / "1.scratch").mkdir(parents=True)
    (tmp_path / "data" / "cache").mkdir()
    (tmp_path / "data" / "cache" / "page").write_bytes(b"x" * 2**20)
    with subprocess.Popen(["sleep", "60"]) as process:
        found = samples.look(process.pid, tmp_path / "data", tmp_path)
        process.kill()
    assert found["processes: other"] == 1
    assert found["memory: other"] > 0
    assert found["open files: other"] > 0
    assert found["directories: scratch"] == 1
    assert found["size: cache"] == 1
