"""What the simulation of a day shows about the claim policy."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def simulate(bench: Any) -> Any:
    return bench("simulate")


def test_a_user_with_one_job_does_not_wait_behind_ten_thousand_of_another(
    simulate: Any, tmp_path: Path
) -> None:
    jobs = [simulate.Arrival(0, "script", "pdf", 2.0) for _ in range(10_000)]
    jobs.append(simulate.Arrival(5, "guest", "pdf", 2.0))
    cluster = simulate.Cluster(workers=2, slots=2)

    starts = simulate.run_store(jobs, cluster, tmp_path, until_s=60)

    (waited,) = simulate.waits_by_user_and_type(starts)["guest", "pdf"]
    assert waited <= 2.0  # until the next slot is free
    plain = simulate.waits_by_user_and_type(simulate.run_fifo(jobs, cluster))
    assert plain["guest", "pdf"][0] > 4_900


def test_nor_behind_those_of_another_type(simulate: Any, tmp_path: Path) -> None:
    jobs = [simulate.Arrival(0, "conference", "session", 100.0) for _ in range(500)]
    jobs += [simulate.Arrival(10.0 + n, "anna", "pdf", 5.0) for n in range(3)]
    cluster = simulate.Cluster(workers=1, slots=4)

    starts = simulate.run_store(jobs, cluster, tmp_path, until_s=1000)

    assert max(simulate.waits_by_user_and_type(starts)["anna", "pdf"]) <= 100


def test_no_more_of_a_type_run_than_allowed_and_the_others_go_on(
    simulate: Any, tmp_path: Path
) -> None:
    jobs = [simulate.Arrival(0, "radio", "audio", 1000.0) for _ in range(6)]
    jobs += [simulate.Arrival(1, "anna", "pdf", 5.0) for _ in range(4)]
    cluster = simulate.Cluster(workers=2, slots=2, max_per_type={"audio": 2})

    waits = simulate.waits_by_user_and_type(simulate.run_store(jobs, cluster, tmp_path))

    assert sorted(waits["radio", "audio"]) == [0, 0, 1000, 1000, 2000, 2000]
    assert max(waits["anna", "pdf"]) <= 5


def test_every_job_of_a_day_is_started_and_the_same_seed_gives_the_same_waits(
    simulate: Any, tmp_path: Path
) -> None:
    jobs = simulate.mixed_day(seed=7, size=0.02)
    cluster = simulate.Cluster(workers=2, slots=1, max_per_type={"audio": 1})
    for name in ("first", "second"):
        (tmp_path / name).mkdir()

    first, second = (
        simulate.run_store(jobs, cluster, tmp_path / name) for name in ("first", "second")
    )

    assert len(first) == len(jobs)
    assert first == second
    assert simulate.mixed_day(seed=7, size=0.02) == jobs != simulate.mixed_day(seed=8, size=0.02)
