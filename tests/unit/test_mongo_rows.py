"""Documents preserve job data: any JSON comes back unchanged, even through BSON."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as some

from secretary.core.job import AccessControl, Job, JobError, JobStatus, Progress, Webhook
from secretary.store.mongo.schema import (
    error_from,
    error_to,
    from_bson,
    job_document,
    job_from,
    list_position,
    moment,
    stamp,
    to_bson,
)

HALF = "\ud83d"  # a lone surrogate: legal in JSON, not in UTF-8

JSON = some.recursive(
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(some.characters(codec=None)),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
)


def through_bson(document: dict[str, Any]) -> dict[str, Any]:
    return bson.decode(bson.encode(document))


@given(some.dictionaries(some.text(some.characters(codec=None)), JSON))
def test_any_json_object_comes_back(value: dict[str, Any]) -> None:
    read = from_bson(through_bson({"value": to_bson(value)})["value"])
    assert read == value


@pytest.mark.parametrize(
    "value",
    [
        {"a.b": 1},
        {"$set": {"x": 1}},
        {"": 1},
        {"a": {"b": [{"c\0": 1}]}},
        {"n": 2**31},
        {"n": -(2**80)},
        {"text": HALF},
        {HALF: 1},
    ],
    ids=ascii,
)
def test_what_bson_would_refuse_or_change_is_kept_as_json(value: dict[str, Any]) -> None:
    stored = to_bson(value)
    assert isinstance(stored, str)
    assert from_bson(through_bson({"value": stored})["value"]) == value


def test_numbers_come_back_as_plain_ones() -> None:
    read = from_bson(through_bson({"value": to_bson({"small": 7, "big": 2**40})})["value"])
    assert [type(number) for number in read.values()] == [int, int]


def test_what_is_plain_stays_open_to_queries() -> None:
    value = {"url": "https://example.org/ä", "pages": [1, 2.5, None, True]}
    assert to_bson(value) == value


def test_very_deep_values_are_kept_as_json() -> None:
    value: dict[str, Any] = {}
    for _ in range(150):
        value = {"x": value}
    assert from_bson(through_bson({"value": to_bson(value)})["value"]) == value


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError):
        to_bson({"at": datetime(2026, 1, 1, tzinfo=UTC)})


class TestTimes:
    def test_a_time_keeps_its_microseconds_and_is_utc(self) -> None:
        east = timezone(timedelta(hours=2))
        at = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=east)
        assert stamp(at) == "2026-01-02T01:04:05.000006Z"
        assert moment(stamp(at)) == at

    def test_times_sort_as_texts(self) -> None:
        start = datetime(2026, 1, 1, tzinfo=UTC)
        times = [start + timedelta(microseconds=n) for n in (0, 1, 999_999, 1_000_000, 10**12)]
        assert sorted(map(stamp, times)) == [stamp(at) for at in times]

    def test_jobs_of_the_same_time_are_listed_by_arrival(self) -> None:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        assert (
            list_position(at, 255)
            < list_position(at, 256)
            < list_position(at + timedelta(microseconds=1), 0)
        )


class TestJobs:
    def test_a_job_comes_back_as_it_was(self) -> None:
        job = Job(
            job_type="pdf",
            job_name="Report",
            user_id="ann",
            access_control=AccessControl(visibility="public", read_access=("bob",)),
            webhook=Webhook.model_validate({"url": "https://x.y", "a.b": None, "jobId": "7"}),
            priority=-5,
            run_at=datetime(2030, 1, 1, tzinfo=UTC),
            timeout_s=1.5,
            max_attempts=2,
            archived=True,
            progress=Progress(step="queued", message="ä"),
        )
        document = through_bson(job_document(job, arrival=1)) | {"parameters": {}}
        assert job_from(document) == job.model_copy(update={"updated_at": job.created_at})

    def test_only_who_may_read_a_job_is_named_in_it(self) -> None:
        shared = AccessControl(read_access=("bob",), admin_access=("cid",))
        job = Job(user_id="ann", access_control=shared)
        assert job_document(job, arrival=1)["readers"] == ["ann", "bob", "cid"]
        assert job_document(Job(), arrival=1)["readers"] == ["*"]

    def test_the_running_attempt_is_distinguished_from_those_that_ended(self) -> None:
        document = job_document(Job(), arrival=1) | {
            "parameters": {},
            "status": "processing",
            "attempt": 2,
            "worker_id": "w2",
            "processing_started_at": "2026-01-01T00:00:02.000000Z",
            "attempts": [
                {
                    "attempt": 1,
                    "worker_id": "w1",
                    "started_at": "2026-01-01T00:00:00.000000Z",
                    "ended_at": "2026-01-01T00:00:01.000000Z",
                    "error": {"code": "X", "message": "x"},
                }
            ],
        }
        job = job_from(document)
        assert job.status is JobStatus.PROCESSING
        assert [(a.attempt, a.worker_id, a.ended_at is None) for a in job.attempts] == [
            (1, "w1", False),
            (2, "w2", True),
        ]
        assert job.attempts[0].error == JobError(code="X", message="x")

    def test_an_error_with_odd_details_can_be_stored(self) -> None:
        odd = {"a.b": float("nan"), "at": datetime(2026, 1, 1, tzinfo=UTC), "path": Path("/x")}
        error = JobError(code="X", message="x", details=odd)
        read = error_from(through_bson({"error": error_to(error)})["error"])
        assert read is not None
        assert read.details == {"a.b": None, "at": "2026-01-01T00:00:00Z", "path": "/x"}

    def test_an_error_keeps_details_that_bson_could_not(self) -> None:
        error = JobError(code="X", message="x", details={"$where": 2**70})
        assert error_from(through_bson({"error": error_to(error)})["error"]) == error
