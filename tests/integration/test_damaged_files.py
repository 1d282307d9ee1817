"""Good files, damaged at random and handed in: each job ends by a result or by an error that has a
name, and leaves nothing behind. `make fuzz` does the same for longer."""

from itertools import islice

import pytest

from ..fuzzing.cases import cases
from ..fuzzing.jobs import survey

SEED = 30_000
#: How many of each kind: recordings take longest.
COUNTS = {"pdf": 15, "office": 18, "pictures": 15, "media": 23}


@pytest.mark.parametrize("kind", COUNTS)
async def test_each_job_ends_by_name(kind: str) -> None:
    report = await survey(islice(cases(SEED, kind), COUNTS[kind]))
    assert report.defects == []
    assert report.deaths == []
    assert report.tried == COUNTS[kind] == sum(report.ends.values())
