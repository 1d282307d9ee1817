"""Workers are killed, stopped and drained at random, and the history of every job is checked.

`make chaos` does the same for longer. Another seed: CHAOS_SEED=7 make test.
"""

import os
from pathlib import Path

import pytest

from .. import chaos
from ..mongod import MongodMissing, find_mongod

SECONDS = 60
SEED = int(os.environ.get("CHAOS_SEED", "1"))


@pytest.mark.chaos
@pytest.mark.timeout(400)
def test_no_promise_is_broken_on_sqlite(tmp_path: Path) -> None:
    _check(chaos.chaos_on_sqlite(tmp_path, seconds=SECONDS, seed=SEED))


@pytest.mark.chaos
@pytest.mark.timeout(400)
def test_no_promise_is_broken_on_mongodb_though_the_server_is_killed_too(tmp_path: Path) -> None:
    try:
        find_mongod()
    except MongodMissing as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(error))
    _check(chaos.chaos_on_mongodb(tmp_path, seconds=SECONDS, seed=SEED))


def _check(report: chaos.Report) -> None:
    print(report)
    assert report.broken == []
    assert report.accepted and sum(report.faults.values()) > 5
    assert report.outcomes["completed"] > len(report.accepted) / 2
