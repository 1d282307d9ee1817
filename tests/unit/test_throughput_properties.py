"""Throughput counters: each finished job is counted once for everyone and once for its owner."""

from collections import Counter
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from secretary.store.stats import (
    ALL_USERS,
    BUCKETS_PER_OCTAVE,
    EPOCH,
    MIN_WAIT_S,
    SLOT,
    UNKNOWN,
    WIDTHS,
    FinishedJob,
    bucket_of,
    count_finished,
    quantile,
    scope_of,
    slot_of,
    width_for,
)

from ..strategies import NAME, TIME, USER

WAITED = st.timedeltas(timedelta(seconds=-5), timedelta(days=30))
ENDING = st.builds(
    FinishedJob,
    job_type=NAME,
    user_id=USER,
    status=st.sampled_from(("completed", "failed", "cancelled")),
    at=TIME,
    code=st.none() | NAME,
    waited=st.none() | WAITED,
)


@given(st.lists(ENDING, max_size=20), st.lists(ENDING, max_size=20))
@settings(max_examples=50)
def test_all_are_counted_once_in_any_parts(
    some: list[FinishedJob], others: list[FinishedJob]
) -> None:
    together = count_finished([*some, *others])
    assert together == count_finished(some) + count_finished(others)
    of_all = {key: n for key, n in together.items() if key.scope == ALL_USERS}
    assert sum(of_all.values()) == len(some) + len(others)
    owned = Counter(scope_of(one.user_id) for one in [*some, *others] if one.user_id is not None)
    counted: Counter[str] = Counter()
    for key, n in together.items():
        if key.scope != ALL_USERS:
            counted[key.scope] += n
    assert counted == owned
    assert all(key.code == "" for key in together if key.status != "failed")


@given(TIME)
@settings(max_examples=50)
def test_a_moment_is_in_its_slot(at: object) -> None:
    slot = slot_of(at)  # type: ignore[arg-type]
    start = EPOCH + slot * SLOT
    assert start <= at < start + SLOT  # type: ignore[operator]


@given(st.lists(WAITED, min_size=1, max_size=50), st.floats(0.01, 1))
@settings(max_examples=50)
def test_a_quantile_is_right_to_within_a_tenth(waits: list[timedelta], part: float) -> None:
    rungs = Counter(map(bucket_of, waits))
    assert UNKNOWN not in rungs
    estimate = quantile(rungs, part)
    seconds = sorted(max(one.total_seconds(), MIN_WAIT_S) for one in waits)
    at = next(n for n in range(1, len(seconds) + 1) if n >= len(seconds) * part)
    right = seconds[at - 1]
    assert estimate is not None
    width = 2 ** (0.5 / BUCKETS_PER_OCTAVE) + 1e-9
    assert right / width <= estimate <= right * width or (estimate == 0.0 and right <= MIN_WAIT_S)


@given(st.integers(0, 10**7), st.integers(1, 10**5))
@settings(max_examples=50)
def test_parts_are_made_up_of_whole_slots(first: int, width: int) -> None:
    interval = width_for(first, width)
    assert interval in WIDTHS
    assert first % interval == 0 and width % interval == 0
