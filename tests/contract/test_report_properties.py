"""Whatever a worker reports about a job is stored as far as possible: file names, model output and
page titles can contain anything, and none of it may prevent a job from finishing."""

import json
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from secretary.core.job import (
    MAX_LOG_ENTRIES,
    MAX_LOG_MESSAGE,
    Completed,
    Failed,
    JobError,
    JobStatus,
    LogEntry,
    Progress,
)
from secretary.store import Store

from ..strategies import ANY_TEXT
from .factories import claimed

ALL = list(HealthCheck)
HALF = "half a character: \ud800"
ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)
DETAILS = st.dictionaries(ANY_TEXT, ANY_JSON, max_size=3)


def whole(text: str) -> str:
    """Lone surrogates cannot be stored; a pair of them is one character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@settings(max_examples=40, suppress_health_check=ALL)
@given(text=ANY_TEXT, details=DETAILS)
@example(text=HALF, details={HALF: [HALF]})
async def test_a_failed_job_keeps_its_error(
    store: Store, text: str, details: dict[str, Any]
) -> None:
    job = await claimed(store)
    logs = [LogEntry(message=text)]
    await store.report(job, Progress(step=text, percent=3, message=text), logs)
    await store.finish(job, Failed(JobError(code="FILE_CORRUPT", message=text, details=details)))
    stored = await store.get(job.job_id)
    assert stored.status is JobStatus.FAILED
    assert stored.error is not None
    assert stored.error.message == whole(text)
    assert (stored.progress.step, stored.progress.message) == (whole(text), whole(text))
    assert [entry.message for entry in stored.logs] == [whole(text)]
    json.dumps(stored.document()).encode()


@settings(max_examples=25, suppress_health_check=ALL)
@given(results=DETAILS)
@example(results={HALF: {HALF: HALF}})
async def test_a_completed_job_keeps_its_results(store: Store, results: dict[str, Any]) -> None:
    job = await claimed(store)
    await store.finish(job, Completed(results))
    stored = await store.get(job.job_id)
    assert stored.status is JobStatus.COMPLETED
    assert stored.results == json.loads(json.dumps(results))


@settings(max_examples=10, suppress_health_check=ALL)
@given(parts=st.lists(st.integers(1, 700), min_size=1, max_size=4), length=st.integers(0, 9000))
async def test_a_log_is_bounded(store: Store, parts: list[int], length: int) -> None:
    job = await claimed(store)
    total = 0
    for part in parts:
        entries = [LogEntry(message=f"{total + n} " + "x" * length) for n in range(part)]
        await store.report(job, None, entries)
        total += part
    logs = (await store.get(job.job_id)).logs
    assert len(logs) <= MAX_LOG_ENTRIES + 1, "plus one note about the dropped entries"
    assert all(len(entry.message) <= MAX_LOG_MESSAGE + 100 for entry in logs)
    assert logs[-1].message.startswith(f"{total - 1} ")
    if total <= MAX_LOG_ENTRIES and length < 100:
        assert len(logs) == total
    elif total > MAX_LOG_ENTRIES:
        assert "were dropped" in logs[0].message
