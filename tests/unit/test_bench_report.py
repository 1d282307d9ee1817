"""How benchmark rows are measured in turn and compared with their peers."""

from typing import Any

import pytest


@pytest.fixture
def report(bench: Any) -> Any:
    return bench("report")


def test_the_best_peer_decides_who_is_ahead(report: Any) -> None:
    peers = {"slow": 5.0, "quick": 2.0, "broken": None}

    more = report.ahead("rate", 4.0, peers, "/s")
    less = report.ahead("time", 4.0, peers, "ms", lower_is_better=True)

    assert (more.met, more.peer, more.ratio) == (False, "slow: 5.00", 0.8)
    assert (less.met, less.peer, less.ratio) == (False, "quick: 2.00", 0.5)
    assert report.ahead("rate", None, peers).met is False
    assert report.ahead("rate", 4.0, peers, target="").verdict == "**behind**"
    assert report.at_most("time over a peer", 2.0, 2.5, peer="peer").ratio == 0.4


def test_rows_are_compared_round_by_round_and_a_failed_one_is_not_measured_again(
    bench: Any,
) -> None:
    def failing(number: int) -> dict[str, float]:
        if number == 1:
            raise harness.Failed("no figure")
        return {"speed": 5.0}

    harness, failures = bench("harness"), list[str]()
    rows = {"bare": lambda number: {"speed": 10.0 + number}, "ours": failing}

    samples = harness.take_turns(rows, 3, failures)

    assert samples["bare", "speed"] == [10.0, 11.0, 12.0]
    assert samples.ratios("ours", "bare", "speed") == [0.5]
    assert samples.line("absent", ["speed"]) == ["absent", None]
    assert failures == ["ours: no figure"]
