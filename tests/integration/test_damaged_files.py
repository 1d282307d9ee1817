"""Valid files, damaged at random and submitted: each job finishes with a result or a documented
error, and leaves nothing behind. `make fuzz` does the same for longer."""

from itertools import islice

import pytest

from ..fuzzing.cases import cases
from ..fuzzing.jobs import survey

SEED = 30_000
#: How many of each kind: recordings take longest.
COUNTS = {"pdf": 15, "office": 18, "pictures": 15, "media": 14}
#: The most common kinds of recordings.
RECORDINGS = {"a.wav", "a.mp3", "a.flac", "a.ogg", "v.mp4", "v.mkv", "v.webm", "a.srt", "a.vtt"}


@pytest.mark.parametrize("kind", COUNTS)
async def test_each_job_ends_by_name(kind: str) -> None:
    every = (case for case in cases(SEED, kind) if kind != "media" or case.name in RECORDINGS)
    report = await survey(islice(every, COUNTS[kind]))
    assert report.defects == []
    assert report.deaths == []
    assert report.tried == COUNTS[kind] == sum(report.ends.values())
