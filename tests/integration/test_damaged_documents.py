"""Good documents, damaged at random: each is read, or refused by name."""

from itertools import islice

from ..fuzzing.documents import Survey, cases
from ..good_files import GOOD

SEED = 20_000
ROUNDS = 10


async def test_no_damage_goes_without_a_name() -> None:
    every = islice(cases(SEED), ROUNDS * len(GOOD))
    survey = Survey()
    await survey.run(iter(lambda: list(islice(every, 25)), []))
    assert survey.defects == []
    assert survey.ended == []
    assert survey.tried == ROUNDS * len(GOOD)
