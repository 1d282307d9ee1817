"""Injects random faults while jobs of all types run, and checks the history of each job.

`make chaos` does the same for longer. Choose another seed with CHAOS_SEED=7 make test."""

import os
from pathlib import Path

import pytest

from ..chaos.report import Report
from ..chaos.run import chaos
from ..mongod import MongodMissing, find_mongod
from ..requirements import missing

SECONDS = 40
SEED = int(os.environ.get("CHAOS_SEED", "1"))


@pytest.mark.chaos
@pytest.mark.timeout(500)
def test_no_promise_is_broken_on_sqlite(tmp_path: Path) -> None:
    _check(chaos(tmp_path, "sqlite", seconds=SECONDS, seed=SEED))


@pytest.mark.chaos
@pytest.mark.timeout(500)
def test_no_promise_is_broken_on_mongodb_though_the_server_is_killed_too(tmp_path: Path) -> None:
    try:
        find_mongod()
    except MongodMissing as error:
        missing(str(error))
    _check(chaos(tmp_path, "mongodb", seconds=SECONDS, seed=SEED))


def _check(report: Report) -> None:
    print(report)
    assert report.broken == [], str(report)
    assert sum(report.faults.values()) > 10, str(report)
    assert report.ended("completed") > report.jobs / 2, str(report)
