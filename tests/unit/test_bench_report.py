"""How benchmark results are compared with their peers and drawn."""

from typing import Any
from xml.etree import ElementTree

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


def test_a_chart_draws_the_medians_of_its_columns_with_the_target(report: Any) -> None:
    table = report.Table(["", "p95 ms"], [["<jobs>", [10.0, 20.0, 40.0]], ["batches", None]])

    drawn = report.drawing(report.Chart("waits", "Waits <ms>", "ms", [1], target=100), table)

    svg, namespace = ElementTree.fromstring(drawn), "{http://www.w3.org/2000/svg}"
    assert svg.get("role") == "img"
    assert svg.findtext(f"{namespace}title") == "Waits <ms>"
    texts = {text.text for text in svg.iter(f"{namespace}text")}
    assert {"<jobs>", "20", "none", "target: 100", "ms"} <= texts
