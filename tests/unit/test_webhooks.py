"""The parts of a webhook event: its payload, its signature, and when it is retried."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier

from secretary.core.http_headers import read_retry_after, signing_keys, webhook_signature
from secretary.core.job import (
    EMPTY_RESULTS,
    Batch,
    Job,
    JobError,
    JobStatus,
    Progress,
    Webhook,
    utc_now,
)
from secretary.storage.artifacts import JobFiles
from secretary.store.outbox import EventQuota
from secretary.webhooks import BreakerOptions, RetrySchedule
from secretary.webhooks.request import (
    batch_payload,
    body,
    encode_headers,
    headers_for,
    job_payload,
    phase_of,
    read_archive,
)
from secretary.webhooks.retries import CircuitBreakers

HOOK = Webhook(url="https://example.org/hook")
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DAY = timedelta(hours=24)

RESULTS = {
    "extracted_text": "--- Seite 1 ---\nHallo",
    "metadata": {"text_contents": [{"page": 1, "content": "Hallo"}]},
    "pages_archive_url": None,
    "markdown_content": "# Hallo",
    "markdown_file": "/api/files/x.md",
    "transcription": {"text": "Hallo", "segments": []},
    "text": "Hallo",
    "structured_data": {"a": 1},
}


def job(**fields: Any) -> Job:
    defaults = {
        "job_id": "job-1",
        "job_type": "pdf",
        "status": "completed",
        "created_at": NOW,
        "processing_started_at": NOW + timedelta(seconds=1),
        "progress": Progress(step="completed", percent=100),
        "results": RESULTS,
    }
    return Job.model_validate(defaults | fields)


class TestPayload:
    def test_a_completed_job_is_reported_as_the_contract_says(self) -> None:
        assert job_payload(job(), HOOK) == {
            "schema_version": 1,
            "worker": "secretary",
            "phase": "completed",
            "status": "completed",
            "message": "completed",
            "job_id": "job-1",
            "job_type": "pdf",
            "jobId": "job-1",
            "job": {"id": "job-1"},
            "process": {
                "id": "job-1",
                "main_processor": "pdf",
                "started": "2026-03-01T12:00:01Z",
                "is_from_cache": False,
            },
            "progress": {"step": "completed", "percent": 100, "message": ""},
            "percent": 100,
            "data": {
                "extracted_text": "--- Seite 1 ---\nHallo",
                "metadata": {"text_contents": [{"page": 1, "content": "Hallo"}]},
            },
            "results": {**EMPTY_RESULTS, **RESULTS},
            "error": None,
        }

    @pytest.mark.parametrize(
        ("job_type", "shown"),
        [
            ("office", {"extracted_text", "metadata"}),
            ("imageocr", {"extracted_text", "metadata"}),
            ("audio", {"transcription"}),
            ("video", {"transcription"}),
            ("transformer", {"text", "structured_data"}),
            ("session", {"markdown_content", "markdown_file"}),
            ("my-own", set(RESULTS)),
        ],
    )
    def test_data_shows_what_clients_of_a_type_look_for(
        self, job_type: str, shown: set[str]
    ) -> None:
        assert set(job_payload(job(job_type=job_type), HOOK)["data"]) == shown

    def test_markdown_and_metadata_can_be_left_out(self) -> None:
        hook = HOOK.model_copy(update={"include_markdown": False, "include_metadata": False})
        payload = job_payload(job(), hook)
        assert "metadata" not in payload["data"]
        remaining = payload["results"].keys() & {"metadata", "markdown_content", "markdown_file"}
        assert not remaining

    @pytest.mark.parametrize("status", ["failed", "cancelled"])
    def test_every_other_end_is_an_error_with_the_ids(self, status: str) -> None:
        error = JobError(code="FILE_CORRUPT", message="It is torn", details={"page": 3})
        hook = HOOK.model_copy(update={"job_id": "mine"})
        payload = job_payload(job(status=status, error=error, results=None), hook)
        assert (payload["phase"], payload["status"], payload["message"]) == (
            "error",
            "error",
            "It is torn",
        )
        assert (payload["data"], payload["results"]) == (None, None)
        assert payload["error"] == {
            "code": "FILE_CORRUPT",
            "message": "It is torn",
            "details": {"page": 3},
        }
        assert (payload["jobId"], payload["job"], payload["job_id"]) == (
            "mine",
            {"id": "mine"},
            "job-1",
        )
        assert payload["process"]["id"] == "job-1"

    def test_progress_is_an_object_and_a_number_where_clients_look_for_it(self) -> None:
        progress = Progress(step="ocr", percent=40, message="Page 4 of 10")
        payload = job_payload(job(status="processing", progress=progress, results=None), HOOK)
        assert (payload["phase"], payload["status"]) == ("running", "processing")
        assert payload["progress"] == {"step": "ocr", "percent": 40, "message": "Page 4 of 10"}
        assert (payload["percent"], payload["data"]) == (40, {"progress": 40})
        assert payload["message"] == "Page 4 of 10"

    @pytest.mark.parametrize("status", ["pending", "processing"])
    def test_progress_contains_nothing_that_could_be_taken_for_a_result(self, status: str) -> None:
        """Not even what an earlier run or attempt has left behind."""
        payload = job_payload(job(status=status, job_type="audio"), HOOK)
        assert payload["data"].keys() == {"progress"}
        assert (payload["results"], payload["error"]) == (None, None)

    def test_a_job_submitted_again_is_reported_under_the_id_of_the_first(self) -> None:
        payload = job_payload(job(process_id="job-0"), HOOK)
        assert (payload["process"]["id"], payload["job_id"]) == ("job-0", "job-1")

    def test_an_error_of_an_attempt_that_is_retried_is_not_reported(self) -> None:
        error = JobError(code="UPSTREAM_FAILED", message="503")
        payload = job_payload(job(status="pending", error=error, results=None), HOOK)
        assert (payload["phase"], payload["status"], payload["error"]) == (
            "queued",
            "processing",
            None,
        )

    @pytest.mark.parametrize(
        ("status", "step", "phase"),
        [
            ("pending", "queued", "queued"),
            ("processing", "initializing", "running"),
            ("processing", "postprocessing", "postprocessing"),
            ("completed", "completed", "completed"),
            ("failed", "x", "error"),
            ("cancelled", "x", "error"),
        ],
    )
    def test_the_phase_follows_the_state(self, status: str, step: str, phase: str) -> None:
        assert phase_of(job(status=status, progress=Progress(step=step))) == phase

    def test_the_body_is_the_same_whatever_is_done_to_the_job_later(self) -> None:
        later = {"updated_at": NOW + DAY, "archived": True}
        assert body(job(), HOOK) == body(job(**later), HOOK)

    def test_the_token_is_in_the_body_only_when_asked_for(self) -> None:
        hook = HOOK.model_copy(update={"token": "t"})
        assert "callback_token" not in json.loads(body(job(), hook))
        asked = hook.model_copy(update={"token_in_body": True})
        assert json.loads(body(job(), asked))["callback_token"] == "t"

    def test_an_archive_is_put_beside_the_data(self) -> None:
        data = job_payload(job(), HOOK, archive=b"zip")["data"]
        assert base64.b64decode(data["archive_data"]) == b"zip"

    def test_a_batch_has_the_same_envelope(self) -> None:
        counts = {JobStatus.COMPLETED: 2, JobStatus.FAILED: 1}
        batch = Batch(batch_id="batch-1", created_at=NOW, webhook=HOOK, counts=counts)
        payload = batch_payload(batch, HOOK)
        assert set(job_payload(job(), HOOK)) | {"batch_id", "batch"} == set(payload)
        assert (payload["phase"], payload["job_type"]) == ("completed", "batch")
        assert payload["message"] == "2 of 3 jobs completed"
        assert payload["batch"]["failed_jobs"] == 1
        assert payload["data"] == payload["batch"]
        assert not payload["batch"].keys() & {"webhook", "access_control", "deliveries"}

    def test_a_batch_without_a_success_is_an_error(self) -> None:
        batch = Batch(counts={JobStatus.FAILED: 1})
        payload = batch_payload(batch, HOOK)
        assert (payload["phase"], payload["status"], payload["data"]) == ("error", "error", None)
        assert payload["error"]["code"] == "BATCH_FAILED"


class TestArchive:
    def finished(self, tmp_path: Path, name: str | None) -> tuple[JobFiles, Job]:
        done = job(attempt=1, results={"archive_filename": name})
        directory = Path(JobFiles(tmp_path).attempt_directory(done))
        directory.mkdir(parents=True)
        (directory / "a.zip").write_bytes(b"zip")
        (tmp_path / "jobs" / "secret").write_bytes(b"no")
        return JobFiles(tmp_path), done

    async def test_it_is_the_file_that_the_results_name(self, tmp_path: Path) -> None:
        assert await read_archive(*self.finished(tmp_path, "a.zip")) == b"zip"

    @pytest.mark.parametrize("name", [None, "", "other.zip", "../../secret", "/etc/passwd", ".."])
    async def test_nothing_else_is_read(self, tmp_path: Path, name: str | None) -> None:
        assert await read_archive(*self.finished(tmp_path, name)) is None

    async def test_a_large_one_stays_at_home(self, tmp_path: Path) -> None:
        files, done = self.finished(tmp_path, "a.zip")
        (Path(files.attempt_directory(done)) / "a.zip").write_bytes(bytes(5 * 1024 * 1024))
        assert await read_archive(files, done) is None


class TestHeaders:
    SECRET = "whsec_" + base64.b64encode(b"k" * 24).decode()

    def test_the_official_library_accepts_the_signature(self) -> None:
        hook = HOOK.model_copy(update={"secret": self.SECRET})
        headers = headers_for(hook, message_id="msg_1", at=utc_now(), body=b'{"a":"\xc3\xa4"}')
        assert Verifier(self.SECRET).verify(b'{"a":"\xc3\xa4"}', headers) == {"a": "ä"}

    def test_the_signature_is_the_one_of_the_standard(self) -> None:
        """The example from the specification."""
        secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        signature = webhook_signature(
            secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}'
        )
        assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

    def test_two_secrets_give_two_signatures(self) -> None:
        other = "whsec_" + base64.b64encode(b"o" * 24).decode()
        hook = HOOK.model_copy(update={"secret": f"{self.SECRET} {other}"})
        headers = headers_for(hook, message_id="msg_1", at=utc_now(), body=b"{}")
        for secret in (self.SECRET, other):
            Verifier(secret).verify(b"{}", headers)

    @pytest.mark.parametrize("secret", ["plain text", "whsec_", "whsec_!!", "c2VjcmV0"])
    def test_a_secret_of_another_form_is_the_key_itself(self, secret: str) -> None:
        assert signing_keys(secret) == [secret.encode()]

    def test_base64_may_lack_its_padding(self) -> None:
        assert signing_keys("whsec_a2V5MQ") == [b"key1"]

    def test_without_a_secret_there_is_no_signature(self) -> None:
        headers = headers_for(HOOK, message_id="msg_1", at=NOW, body=b"{}")
        assert "webhook-signature" not in headers
        assert headers["webhook-timestamp"] == str(int(NOW.timestamp()))

    def test_a_clients_headers_cannot_replace_ours(self) -> None:
        own = {"Content-Type": "text/plain", "WEBHOOK-ID": "x", "Host": "y", "Authorization": "z"}
        hook = HOOK.model_copy(update={"headers": own, "token": "t"})
        headers = headers_for(hook, message_id="msg_1", at=NOW, body=b"{}")
        assert headers["content-type"] == "application/json"
        assert (headers["webhook-id"], headers["authorization"]) == ("msg_1", "Bearer t")
        assert "host" not in headers

    def test_without_a_token_a_client_may_authorize_itself(self) -> None:
        hook = HOOK.model_copy(update={"headers": {"Authorization": "Basic x"}})
        headers = headers_for(hook, message_id="msg_1", at=NOW, body=b"{}")
        assert headers["authorization"] == "Basic x"

    def test_what_no_header_can_hold_is_taken_off_its_ends(self) -> None:
        assert encode_headers({"x-own": " ärger\t"}) == [(b"x-own", "ärger".encode())]

    def test_a_trace_is_carried_on(self) -> None:
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        headers = headers_for(HOOK, message_id="m", at=NOW, body=b"", traceparent=trace)
        assert headers["traceparent"] == trace


class TestSchedule:
    def tries(self, schedule: RetrySchedule) -> list[timedelta]:
        """When all attempts are made, relative to the first, if none succeeds."""
        now, tried, times = NOW, 1, []
        while (again := schedule.next_attempt(tried, since=NOW, now=now)) is not None:
            times.append(again - NOW)
            now, tried = again, tried + 1
        return times

    def test_the_tries_spread_over_a_day(self) -> None:
        times = self.tries(RetrySchedule(jitter=0))
        assert [time.total_seconds() for time in times] == [
            5, 35, 335, 2135, 9335, 27335, 52535, 84935,
        ]  # fmt: skip

    def test_with_jitter_it_is_still_over_within_a_day(self) -> None:
        for _ in range(200):
            times = self.tries(RetrySchedule())
            assert len(times) == 8
            assert times[-1] <= DAY

    def test_jitter_keeps_tries_apart(self) -> None:
        first = {RetrySchedule().next_attempt(1, since=NOW, now=NOW) for _ in range(50)}
        assert len(first) > 40

    def test_a_receiver_may_ask_for_more_time(self) -> None:
        again = RetrySchedule().next_attempt(1, since=NOW, now=NOW, at_least=timedelta(hours=1))
        assert again == NOW + timedelta(hours=1)

    def test_but_not_for_less_nor_for_more_than_the_day_has(self) -> None:
        schedule = RetrySchedule(jitter=0)
        soon = schedule.next_attempt(3, since=NOW, now=NOW, at_least=timedelta(seconds=1))
        assert soon == NOW + timedelta(minutes=5)
        late = schedule.next_attempt(1, since=NOW, now=NOW, at_least=timedelta(days=7))
        assert late == NOW + DAY

    def test_after_a_day_it_is_over(self) -> None:
        assert RetrySchedule().next_attempt(1, since=NOW, now=NOW + DAY) is None

    @pytest.mark.parametrize(
        ("header", "seconds"),
        [
            (None, None),
            ("120", 120),
            (" 0 ", 0),
            ("Sun, 01 Mar 2026 12:01:00 GMT", 60),
            ("Sun, 01 Mar 2026 11:00:00 GMT", 0),
            ("soon", None),
            ("-5", None),
            ("9" * 400, 10**9),
            ("9" * 5000, 10**9),
            ("٣", None),
            ("Sun, 01 Mar 2026 12:00:00 +99999999999999999999", None),
        ],
    )
    def test_retry_after_is_read_in_both_forms(
        self, header: str | None, seconds: int | None
    ) -> None:
        wait = read_retry_after(header, NOW)
        assert (None if wait is None else wait.total_seconds()) == seconds


class TestShares:
    """How the slots of a sender are shared."""

    QUOTA = EventQuota(limit=90, per_host=45, per_endpoint=20)

    def test_each_endpoint_and_host_has_a_limit(self) -> None:
        shares = self.QUOTA.shares(
            ["https://a/1#", "https://a/2#", "https://b/1#", "https://b/1#x"]
        )
        assert shares["https://a/1#"] == shares["https://a/2#"] == 20
        assert shares["https://b/1#"] + shares["https://b/1#x"] == 20

    def test_requests_that_hang_leave_room_for_others_on_the_same_host(self) -> None:
        hanging = {f"https://a/{n}#ann": 20 for n in (1, 2)}
        quota = replace(self.QUOTA, in_flight=hanging)
        assert quota.shares(["https://a/3#ann"]) == {}
        assert quota.shares(["https://a/3#bob"]) == {"https://a/3#bob": 5}

    def test_a_user_with_many_hosts_leaves_room_for_others(self) -> None:
        hanging = {f"https://{n}/#ann": 20 for n in range(4)}
        quota = replace(self.QUOTA, in_flight=hanging)
        assert quota.shares(["https://b/#ann", "https://b/#bob"]) == {"https://b/#bob": 9}

    def test_users_get_the_same_however_many_urls_one_has(self) -> None:
        queues = [f"https://a/{n}#ann" for n in range(50)] + ["https://a/x#bob"]
        assert self.QUOTA.shares(queues)["https://a/x#bob"] >= 1

    def test_a_failing_endpoint_gets_one_request_and_its_host_the_rest(self) -> None:
        queues = ["https://a/1#ann", "https://a/1#bob", "https://a/2#ann"]
        shares = replace(self.QUOTA, reduced={"https://a/1": 1}).shares(queues)
        assert shares["https://a/1#ann"] + shares["https://a/1#bob"] == 1
        assert shares["https://a/2#ann"] == 20
        assert replace(self.QUOTA, reduced={"https://a": 0}).shares(queues) == {}

    def test_events_of_versions_with_a_queue_per_host_are_still_sent(self) -> None:
        assert self.QUOTA.shares(["https://a"]) == {"https://a": 20}


class TestBreaker:
    OPTIONS = BreakerOptions(
        failures=3, pause=timedelta(seconds=10), max_pause=timedelta(seconds=25)
    )

    def breakers(self) -> tuple[CircuitBreakers, list[float]]:
        time = [0.0]
        return CircuitBreakers(self.OPTIONS, clock=lambda: time[0]), time

    def test_a_few_failures_change_nothing(self) -> None:
        breakers, _ = self.breakers()
        assert [breakers.failed("a") for _ in range(2)] == [None, None]
        assert breakers.allowed("a", 8) == 8

    def test_more_in_a_row_bring_a_pause_for_this_endpoint(self) -> None:
        breakers, _ = self.breakers()
        pauses = [breakers.failed("a") for _ in range(3)]
        assert pauses == [None, None, timedelta(seconds=10)]
        assert (breakers.allowed("a", 8), breakers.allowed("b", 8)) == (0, 8)

    def test_a_success_in_between_starts_the_count_again(self) -> None:
        breakers, _ = self.breakers()
        breakers.failed("a")
        breakers.failed("a")
        breakers.succeeded("a")
        assert breakers.failed("a") is None

    def test_after_the_pause_one_request_is_a_probe(self) -> None:
        breakers, time = self.breakers()
        for _ in range(3):
            breakers.failed("a")
        time[0] = 10.0
        assert breakers.allowed("a", 8) == 1
        breakers.succeeded("a")
        assert breakers.allowed("a", 8) == 8

    def test_pauses_grow_up_to_a_limit(self) -> None:
        breakers, time = self.breakers()
        breakers.failed("a")
        breakers.failed("a")
        pauses = []
        for _ in range(4):
            pauses.append(breakers.failed("a"))
            time[0] += 100
        assert [pause and pause.total_seconds() for pause in pauses] == [10, 20, 25, 25]

    def test_requests_that_were_on_their_way_do_not_prolong_the_pause(self) -> None:
        breakers, _ = self.breakers()
        for _ in range(3):
            breakers.failed("a")
        assert breakers.failed("a") is None
        assert breakers.failed("a") is None


class TestWhatAWebhookWants:
    def test_everything_unless_it_says_otherwise(self) -> None:
        assert HOOK.wants("queued") and HOOK.wants("completed") and HOOK.wants_progress

    @pytest.mark.parametrize(
        ("events", "wanted"),
        [
            (("completed",), {"completed"}),
            (("failed", "cancelled"), {"error"}),
            (("progress",), {"queued", "running", "postprocessing"}),
            (("running", "error"), {"running", "error"}),
            ((), set()),
        ],
    )
    def test_only_what_it_names(self, events: tuple[str, ...], wanted: set[str]) -> None:
        hook = HOOK.model_copy(update={"events": events})
        phases = ("queued", "running", "postprocessing", "completed", "error")
        assert {phase for phase in phases if hook.wants(phase)} == wanted

    @pytest.mark.parametrize(
        ("url", "endpoint"),
        [
            ("https://Example.org/a?b=c", "https://example.org/a"),
            ("https://example.org/A/{jobId}#c", "https://example.org/A/{jobId}"),
            ("http://example.org:8080/x", "http://example.org:8080/x"),
            ("http://example.org:80", "http://example.org/"),
            ("https://user:password@example.org:443/", "https://example.org/"),
            ("http://[::1", "unknown"),
        ],
    )
    def test_its_endpoint_is_its_url_without_credentials_and_query(
        self, url: str, endpoint: str
    ) -> None:
        assert Webhook(url=url).endpoint == endpoint
