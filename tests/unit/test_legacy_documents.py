import base64
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from secretary.core.job import JobStatus
from secretary.migration.legacy import (
    LEGACY_WORKER_ID,
    UnreadableDocument,
    convert_batch,
    convert_job,
    to_json,
)

CREATED = datetime(2025, 3, 6, 12, 56, 36, 123000, tzinfo=UTC)
ZIP = b"PK\x05\x06" + bytes(18)


def document(**fields: Any) -> dict[str, Any]:
    stored = {
        "_id": "67c98a3412ab34cd56ef7890",
        "job_id": "job-6e0b3c1e-9a6e-4c5d-8a35-0d1d3f2b1a00",
        "job_type": "session",
        "status": "completed",
        "parameters": {"event": "FOSDEM 2025", "session": "A talk", "filename": "a-talk.md"},
        "created_at": CREATED,
        **fields,
    }
    return {name: to_json(value) for name, value in stored.items()}


class TestJobs:
    def test_a_completed_job_keeps_its_fields(self) -> None:
        results = {
            "markdown_file": "sessions/FOSDEM/a-talk.md",
            "target_dir": "C:/data/cache/pdf/x",
            "assets": ["/cache/pdf/x/image_001.jpg"],
            "made": CREATED,
        }
        job = convert_job(
            document(
                job_name="A talk",
                results=results,
                progress={"step": "completed", "percent": 100, "message": "Fertig"},
                processing_started_at="2025-03-06T12:57:00",
                completed_at="2025-03-06T14:00:00.5+01:00",
                updated_at=CREATED + timedelta(hours=2),
                batch_id="batch-1",
                user_id="u-123",
                access_control={"visibility": "public", "read_access": ["u-9"], "more": 1},
                logs=[{"timestamp": CREATED, "level": "WARN", "message": "slow"}, "a line"],
                archived=True,
            )
        ).record.job
        assert job.status is JobStatus.COMPLETED
        assert job.results == {**results, "made": "2025-03-06T12:56:36.123000Z"}
        assert job.processing_started_at == datetime(2025, 3, 6, 12, 57, tzinfo=UTC)
        assert job.completed_at == datetime(2025, 3, 6, 13, 0, 0, 500000, tzinfo=UTC)
        assert (job.batch_id, job.user_id, job.archived) == ("batch-1", "u-123", True)
        assert (job.access_control.visibility, job.access_control.read_access) == (
            "public",
            ("u-9",),
        )
        assert [(e.level, e.message) for e in job.logs] == [("warning", "slow"), ("info", "a line")]
        assert (job.attempt, job.worker_id, job.progress.percent) == (1, LEGACY_WORKER_ID, 100)

    @pytest.mark.parametrize(
        ("status_text", "status"),
        [
            ("pending", "pending"),
            ("processing", "failed"),
            ("completed", "completed"),
            ("failed", "failed"),
            ("cancelled", "cancelled"),
            ("ERROR", "failed"),
        ],
    )
    def test_states_have_their_counterparts(self, status_text: str, status: str) -> None:
        assert convert_job(document(status=status_text)).record.job.status.value == status

    def test_a_job_that_was_running_has_failed_and_says_why(self) -> None:
        job = convert_job(document(status="processing", processing_started_at=CREATED)).record.job
        assert job.error is not None and job.error.code == "WORKER_CRASHED"
        assert job.completed_at is not None

    def test_a_job_that_was_running_may_run_again(self) -> None:
        record = convert_job(document(status="processing"), running="pending").record
        assert (record.job.status, record.job.attempt) == (JobStatus.PENDING, 0)
        assert record.job.progress.percent == 0

    def test_the_error_is_kept_in_whatever_form(self) -> None:
        stored_error = {"code": "PROCESSING_TIMEOUT", "message": "2 h", "details": ["a"]}
        error = convert_job(document(status="failed", error=stored_error)).record.job.error
        assert error is not None
        assert (error.code, error.details) == ("PROCESSING_TIMEOUT", {"told": ["a"]})
        for other, message in (("boom", "boom"), (None, "The legacy service recorded no reason")):
            error = convert_job(document(status="failed", error=other)).record.job.error
            assert error is not None and (error.code, error.message) == ("INTERNAL_ERROR", message)

    def test_nested_extras_are_folded(self) -> None:
        parameters = {"a": 1, "extra": {"b": 2, "extra": {"c": 3, "b": 0}}}
        job = convert_job(document(parameters=parameters)).record.job
        assert job.parameters == {"a": 1, "extra": {"b": 2, "c": 3}}

    @pytest.mark.parametrize(
        "parameters",
        [
            {"webhook": {"url": "https://x.org/h", "token": "SECRET", "jobId": "c-1"}},
            {"extra": {"webhook": {"url": "https://x.org/h", "token": "SECRET"}}},
            {"callback_url": "https://x.org/h", "callback_token": "SECRET"},
        ],
    )
    def test_no_token_stays_in_the_parameters(self, parameters: dict[str, Any]) -> None:
        job = convert_job(document(status="pending", parameters=parameters)).record.job
        assert job.webhook is not None
        assert (job.webhook.url, job.webhook.token) == ("https://x.org/h", "SECRET")
        assert "SECRET" not in str(job.parameters)

    def test_a_webhook_gets_events_of_a_waiting_job_and_not_of_an_old_one(self) -> None:
        webhook = {"url": "https://x.org/h", "headers": {"Authorization": "Bearer x"}}
        assert convert_job(document(status="pending", webhook=webhook)).record.outbox.due_at
        ended = convert_job(document(webhook=webhook)).record
        assert ended.outbox.due_at is None and ended.job.webhook is not None

    def test_an_archive_becomes_a_file(self) -> None:
        data = base64.b64encode(ZIP).decode()
        results = {"archive_data": data, "archive_filename": "../a/talk.zip"}
        older = convert_job(document(results=results))
        job = older.record.job
        assert older.archive == ZIP
        assert job.results == {
            "archive_filename": "talk.zip",
            "archive_url": f"/api/jobs/{job.job_id}/download-archive",
        }

    def test_an_archive_that_is_none_is_left_out(self) -> None:
        older = convert_job(document(results={"archive_data": "no base64!", "x": 1}))
        assert (older.archive, older.record.job.results) == (None, {"x": 1})

    def test_an_id_of_another_form_becomes_one_of_ours_always_the_same(self) -> None:
        ids = {convert_job(document(job_id=own)).record.record_id for own in ("a b", "a b", "../x")}
        assert len(ids) == 2 and all(one.startswith("job-") for one in ids)
        without = document()
        del without["job_id"], without["created_at"]
        record = convert_job(without).record
        assert record.record_id.startswith("job-")
        assert record.job.created_at == datetime(2025, 3, 6, 11, 42, 44, tzinfo=UTC)

    def test_a_job_of_a_batch_that_is_not_active_waits_for_it(self) -> None:
        given = document(status="pending", batch_id="batch-1")
        assert convert_job(given, inactive={"batch-1"}).record.paused
        assert not convert_job(given, inactive={"batch-2"}).record.paused

    def test_of_very_many_log_entries_the_last_are_kept(self) -> None:
        logs = [{"timestamp": CREATED, "level": "info", "message": str(n)} for n in range(1010)]
        record = convert_job(document(logs=logs)).record
        assert (len(record.job.logs), record.dropped_logs) == (1000, 10)
        assert record.job.logs[0].message == "10"

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"status": "odd"}, "its status is odd"),
            ({"status": None}, "its status is missing"),
            ({"parameters": ["x"]}, "its parameters are not a document"),
            ({"job_type": "x" * 101}, "job_type: String should have at most 100 characters"),
            ({"job_id": "", "_id": ""}, "it has no id"),
            ({"created_at": "soon", "_id": "1"}, "it has no creation time"),
        ],
    )
    def test_what_cannot_be_read_says_why(self, fields: dict[str, Any], reason: str) -> None:
        with pytest.raises(UnreadableDocument, match=reason):
            convert_job(document(**fields))

    def test_times_of_other_zones_are_converted_to_utc(self) -> None:
        zone = timezone(timedelta(hours=2))
        created = CREATED.astimezone(zone)
        assert convert_job(document(created_at=created)).record.job.created_at == CREATED


class TestBatches:
    def test_a_batch_keeps_its_fields_except_its_counters(self) -> None:
        stored = to_json(
            {
                "batch_id": "batch-1",
                "batch_name": "FOSDEM ecosocial",
                "status": "completed",
                "total_jobs": 99,
                "isActive": False,
                "archived": True,
                "created_at": CREATED,
                "completed_at": CREATED + timedelta(hours=1),
                "webhook": {"url": "https://example.org/hook"},
            }
        )
        batch = convert_batch(stored).batch
        assert (batch.batch_name, batch.is_active, batch.archived) == (
            "FOSDEM ecosocial",
            False,
            True,
        )
        assert batch.completed_at == CREATED + timedelta(hours=1)
        assert batch.webhook is not None and batch.total_jobs == 0

    def test_a_batch_with_jobs_that_wait_has_not_ended(self) -> None:
        given = to_json({"batch_id": "batch-1", "status": "completed", "created_at": CREATED})
        assert convert_batch(given, still_open={"batch-1"}).batch.completed_at is None
        assert convert_batch(given).batch.completed_at == CREATED
