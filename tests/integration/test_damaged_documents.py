"""Valid documents, damaged at random: each is read, or rejected with an error code."""

from itertools import islice

from ..fuzzing.cases import cases
from ..fuzzing.documents import KINDS, survey

SEED = 20_000
COUNT = 260


async def test_no_damage_goes_without_a_name() -> None:
    every = islice(cases(SEED, *KINDS), COUNT)
    report = await survey(iter(lambda: list(islice(every, 25)), []))
    assert report.defects == []
    assert report.deaths == []
    assert report.tried == COUNT
