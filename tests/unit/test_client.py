"""The parts of the client that need no service."""

import asyncio
import gc
import io
import json
import os
import pty
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Standard

from secretary import client
from secretary.client import ApiError, Client, Retries, Task, WebhookRefused, verify_webhook
from secretary.client.connection import EventParser, is_retryable, parse_retry_after
from secretary.client.jobs import file_path, save_path
from secretary.client.models import Event, Results
from secretary.client.requests import Form, form_value, open_source, split_files
from secretary.client.sync import Portal
from secretary.core.job import Job, JobStatus, Webhook, utc_now
from secretary.webhooks.request import body as payload_of
from secretary.webhooks.request import headers_for

SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
SOURCE = str(Path(client.__file__).parents[2])
OTHER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class TestRetries:
    def test_waits_double_up_to_the_longest(self) -> None:
        retries = Retries(first_wait=1, longest_wait=5, chance=lambda: 0.0)
        assert [retries.wait(failures) for failures in (1, 2, 3, 4, 999)] == [1, 2, 4, 5, 5]

    def test_jitter_shortens_a_wait_by_up_to_half(self) -> None:
        assert Retries(first_wait=1, chance=lambda: 1.0).wait(1) == 0.5

    def test_retry_after_extends_a_wait_up_to_a_limit(self) -> None:
        retries = Retries(first_wait=1, longest_retry_after=60, chance=lambda: 0.0)
        assert retries.wait(1, 7) == 7
        assert retries.wait(1, 0) == 1
        assert retries.wait(1, 9999) == 60

    def test_retry_after_may_be_seconds_or_a_date(self) -> None:
        assert parse_retry_after("7") == 7
        later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
        assert 25 < (parse_retry_after(later) or 0) <= 30
        assert parse_retry_after("soon") is None
        assert parse_retry_after("Mon, 01 Jan 99999999999 00:00:00 GMT") is None
        assert parse_retry_after(None) is None


STREAM = (
    b'id: 1\nevent: progress\nretry: 2000\ndata: {"job":{"id":"job-1"},"phase":"running",'
    b'"message":"Seite \xc3\xa4","data":{"progress":40}}\n\n'
    b": heartbeat\n\n"
    b'id: 2\r\nevent: completed\r\ndata: {"job":{"id":"job-1"},\r\ndata: "data":{}}\r\n\r\n'
    b"id: 3\n\n"
    b'id: 4\nevent: error\ndata: {"job":'
)


class TestEventParser:
    def test_a_long_event_is_joined_once(self) -> None:
        parser = EventParser()
        piece = b"x" * 65536
        assert list(parser.feed(b'id: 1\nevent: completed\ndata: {"message": "')) == []
        for _ in range(500):
            assert list(parser.feed(piece)) == []
        (event,) = parser.feed(b'"}\n\n')
        assert len(event.message) == 500 * 65536

    def test_a_heartbeat_counts_as_received(self) -> None:
        parser = EventParser()
        assert not parser.has_received
        assert list(parser.feed(b": heartbeat\n\n")) == []
        assert parser.has_received
        parser.reset()
        assert not parser.has_received

    @pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
    def test_chunk_boundaries_do_not_matter(self, size: int) -> None:
        parser = EventParser()
        events: list[Event] = []
        for start in range(0, len(STREAM), size):
            events += parser.feed(STREAM[start : start + size])
        assert [(event.name, event.id, event.percent) for event in events] == [
            ("progress", "1", 40),
            ("completed", "2", 100),
        ]
        assert events[0].message == "Seite ä"
        assert parser.pause == 2.0

    def test_only_complete_events_update_the_last_id(self) -> None:
        parser = EventParser()
        list(parser.feed(STREAM))
        assert parser.last_id == "3"
        parser.reset()
        assert [event.id for event in parser.feed(b'data: {"job": null}\n\n')] == ["3"]


async def content(form: Form) -> bytes:
    return b"".join([chunk async for chunk in form.chunks()])


class TestUploads:
    async def test_a_form_can_be_sent_repeatedly_with_the_announced_length(self) -> None:
        form = Form({"a": "ä"}, (io.BytesIO(b"content"), 'a"b\n.pdf'), (io.BytesIO(), "b"))
        first = await content(form)
        assert await content(form) == first
        assert len(first) == form.length
        assert b'name="a"\r\n\r\n\xc3\xa4\r\n' in first
        assert b'filename="a%22b%0A.pdf"' in first

    async def test_the_position_of_an_open_file_is_restored(self) -> None:
        file = io.BytesIO(b"skipped content")
        file.seek(8)
        async with open_source(file) as (open_file, _):
            sent = await content(Form({}, (open_file, "x")))
        assert b"\r\n\r\ncontent\r\n" in sent
        assert file.tell() == 8

    async def test_unseekable_files_are_buffered(self) -> None:
        class Pipe(io.BytesIO):
            def seekable(self) -> bool:
                return False

        async with open_source(Pipe(b"content"), "x.pdf") as (open_file, name):
            form = Form({}, (open_file, name))
            assert await content(form) == await content(form)
            assert b"content" in await content(form)

    async def test_the_file_name_comes_from_the_path(self, tmp_path: Path) -> None:
        (tmp_path / "x.pdf").write_bytes(b"content")
        async with open_source(tmp_path / "x.pdf") as (_, name):
            assert name == "x.pdf"

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (True, "true"),
            (3, "3"),
            (["a", "b"], "a,b"),
            ({"a": [1]}, '{"a": [1]}'),
            (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00+00:00"),
        ],
    )
    def test_values_are_encoded_as_form_fields(self, value: Any, text: str) -> None:
        assert form_value(value) == text

    def test_jobs_of_a_batch_refer_to_files_by_index(self) -> None:
        documents, files = split_files(
            [
                Task("pdf", {"url": "https://example.org/a.pdf"}),
                Task("audio", file=b"sound", file_name="a.wav"),
                {"file": "x.pdf", "parameters": {"password": "x"}},
            ]
        )
        assert [document.get("file") for document in documents] == [None, 0, 1]
        assert "job_type" not in documents[2]
        assert files == [(b"sound", "a.wav"), ("x.pdf", None)]

    def test_a_file_among_the_parameters_is_rejected(self) -> None:
        with pytest.raises(ValueError, match="not a parameter"):
            split_files([Task("pdf", {"file": "x.pdf"})])


class TestDownloads:
    def test_a_file_is_addressed_by_name_or_path(self) -> None:
        assert file_path("job-1", "a b.jpg") == "/api/files/job-1/a%20b.jpg"
        assert file_path("job-1", "/api/files/job-1/a.jpg") == "/api/files/job-1/a.jpg"
        assert file_path("job-1", "/api/pdf/text-content/job-1/p.txt") == "/api/files/job-1/p.txt"

    def test_the_key_is_not_sent_to_other_hosts(self) -> None:
        with pytest.raises(ValueError, match="another URL"):
            file_path("job-1", "https://example.org/a.jpg")

    def test_a_file_is_saved_to_a_path_or_into_a_directory(self, tmp_path: Path) -> None:
        assert save_path(None, "/api/files/job-1/a%20b.jpg") == Path("a b.jpg")
        assert save_path(tmp_path, "x/a.jpg") == tmp_path / "a.jpg"
        assert save_path(tmp_path / "new.jpg", "a.jpg") == tmp_path / "new.jpg"


class TestResults:
    def test_undeclared_fields_are_kept(self) -> None:
        results = Results.model_validate({"extracted_text": "Hello", "newer": [1]})
        assert results.extracted_text == "Hello"
        assert results.raw == {"extracted_text": "Hello", "newer": [1]}

    def test_fields_of_another_type_are_in_raw_only(self) -> None:
        raw_results = {"assets": [{"a": 1}], "transcription": {"segments": 3}, "text": "Hello"}
        results = Results.model_validate(raw_results)
        assert (results.assets, results.transcription, results.text) == ([], None, "Hello")
        assert results.raw == raw_results


DRAWING = """
import sys
from secretary.client.models import Progress
from secretary.client.jobs import progress_bar

with progress_bar(True, "report.pdf") as on_progress:
    on_progress(Progress(percent=40, message="Page 4"))
"""


class TestProgressBar:
    def test_a_terminal_shows_a_bar(self) -> None:
        output = drawn(on_terminal=True)
        assert "report.pdf" in output
        assert "40 %" in output
        assert "Page 4" in output

    def test_nothing_is_shown_without_a_terminal(self) -> None:
        assert drawn(on_terminal=False) == ""


def drawn(*, on_terminal: bool) -> str:
    """What is written to stderr."""
    ours, theirs = pty.openpty() if on_terminal else os.pipe()
    environment = {**os.environ, "PYTHONPATH": SOURCE, "TERM": "xterm", "COLUMNS": "100"}
    program = [sys.executable, "-W", "error", "-c", DRAWING]
    subprocess.run(program, stderr=theirs, env=environment, check=True, timeout=30)
    os.set_blocking(ours, False)
    output = b""
    with suppress(BlockingIOError):
        while piece := os.read(ours, 4096):
            output += piece
    os.close(theirs)
    os.close(ours)
    return output.decode()


INTERRUPTED = """
import asyncio, signal
from secretary.client.sync import Portal

async def numbers():
    try:
        yield 1
        await asyncio.sleep(60)
    finally:
        print("closed", flush=True)

async def five():
    return 5

portal = Portal()
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    for number in portal.iterate(numbers()):
        pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(portal.run(five()))
portal.close(asyncio.sleep(0))
"""


class TestPortal:
    def test_each_thread_gets_its_own_result(self) -> None:
        portal, results = Portal(), []

        async def double(number: int) -> int:
            await asyncio.sleep(0.001)
            return 2 * number

        threads = [
            threading.Thread(target=lambda n=n: results.append((n, portal.run(double(n)))))
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
        assert sorted(results) == [(n, 2 * n) for n in range(8)]
        portal.close(asyncio.sleep(0))

    def test_a_call_that_would_deadlock_is_rejected(self) -> None:
        portal = Portal()

        async def inside() -> None:
            portal.run(asyncio.sleep(0))

        with pytest.raises(RuntimeError, match="AsyncClient"):
            portal.run(inside())
        portal.close(asyncio.sleep(0))

    def test_an_abandoned_iterator_is_closed(self) -> None:
        portal, closed = Portal(), threading.Event()

        async def numbers() -> Any:
            try:
                for number in range(10):
                    yield number
            finally:
                closed.set()

        for number in portal.iterate(numbers()):
            assert number == 0
            break
        gc.collect()
        assert closed.wait(5)
        portal.close(asyncio.sleep(0))

    def test_an_unclosed_client_leaves_no_thread(self) -> None:
        portal = Portal()
        portal.run(asyncio.sleep(0))
        (thread,) = [each for each in threading.enumerate() if each.name == "secretary-client"]
        del portal
        gc.collect()
        thread.join(5)
        assert not thread.is_alive()

    def test_a_program_can_continue_after_ctrl_c(self) -> None:
        """In a separate process: only its main thread is interrupted."""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", INTERRUPTED],
            capture_output=True,
            text=True,
            timeout=30,
            env={**os.environ, "PYTHONPATH": SOURCE},
        )
        assert (done.stdout, done.stderr) == ("closed\ninterrupted\n5\n", "")

    def test_a_closed_client_cannot_be_used(self) -> None:
        closed = Client("http://127.0.0.1:9")
        closed.close()
        closed.close()
        with pytest.raises(RuntimeError, match="closed"):
            closed.health()


def event(secret: str = SECRET, at: datetime | None = None) -> tuple[bytes, dict[str, str]]:
    job = Job(job_id="job-1", job_type="pdf", status=JobStatus.COMPLETED, results={"assets": ["a"]})
    hook = Webhook(url="https://example.org/hook", secret=secret, job_id="mine")
    body = payload_of(job, hook)
    return body, headers_for(hook, message_id="msg_1", at=at or utc_now(), body=body)


class TestVerifyWebhook:
    def test_a_valid_event_is_parsed(self) -> None:
        body, headers = event()
        parsed = verify_webhook(body, headers, SECRET)
        assert (parsed.id, parsed.job_id, parsed.phase) == ("msg_1", "job-1", "completed")
        assert (parsed.job_type, parsed.client_id, parsed.error) == ("pdf", "mine", None)
        assert parsed.results is not None
        assert parsed.results.assets == ["a"]
        assert parsed.raw == json.loads(body)

    def test_header_names_are_case_insensitive(self) -> None:
        body, headers = event()
        verify_webhook(body, {name.title(): value for name, value in headers.items()}, SECRET)

    def test_signatures_of_the_standard_library_are_accepted(self) -> None:
        body = b'{"phase": "completed", "status": "completed"}'
        now = utc_now()
        signature = Standard(SECRET).sign("msg_1", now, body.decode())
        headers = {
            "webhook-id": "msg_1",
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": f"v2,abc {signature}",
        }
        assert verify_webhook(body, headers, SECRET).phase == "completed"

    @pytest.mark.parametrize("secret", [OTHER, "plain", f"{OTHER} {OTHER}"])
    def test_another_secret_is_rejected(self, secret: str) -> None:
        with pytest.raises(WebhookRefused, match="signature"):
            verify_webhook(*event(), secret)

    def test_either_secret_is_accepted_during_rotation(self) -> None:
        verify_webhook(*event(f"{SECRET} {OTHER}"), OTHER)
        verify_webhook(*event(SECRET), f"{OTHER} {SECRET}")

    def test_a_changed_body_is_rejected(self) -> None:
        body, headers = event()
        with pytest.raises(WebhookRefused, match="signature"):
            verify_webhook(body + b" ", headers, SECRET)

    @pytest.mark.parametrize("minutes", [-10, 10])
    def test_old_and_future_timestamps_are_rejected(self, minutes: int) -> None:
        sent = event(at=utc_now() + timedelta(minutes=minutes))
        with pytest.raises(WebhookRefused, match="old"):
            verify_webhook(*sent, SECRET)
        verify_webhook(*sent, SECRET, tolerance=900)

    @pytest.mark.parametrize("name", ["id", "timestamp", "signature"])
    def test_every_header_is_required(self, name: str) -> None:
        body, headers = event()
        del headers[f"webhook-{name}"]
        with pytest.raises(WebhookRefused, match=name):
            verify_webhook(body, headers, SECRET)

    @pytest.mark.parametrize("timestamp", ["now", "1e9", "-5", "٣", "9" * 30])
    def test_an_invalid_timestamp_is_rejected(self, timestamp: str) -> None:
        body, headers = event()
        with pytest.raises(WebhookRefused):
            verify_webhook(body, headers | {"webhook-timestamp": timestamp}, SECRET)

    @pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", json.dumps("text").encode()])
    def test_a_signed_body_that_is_not_an_event_is_rejected(self, body: bytes) -> None:
        hook = Webhook(url="https://example.org", secret=SECRET)
        headers = headers_for(hook, message_id="msg_1", at=utc_now(), body=body)
        with pytest.raises(WebhookRefused, match="body"):
            verify_webhook(body, headers, SECRET)

    def test_an_empty_secret_is_rejected(self) -> None:
        with pytest.raises(ValueError, match="secret"):
            verify_webhook(*event(), " ")

    def test_webhook_refused_is_a_value_error(self) -> None:
        assert issubclass(WebhookRefused, ValueError)


def test_a_request_that_exceeds_a_quota_is_not_retried() -> None:
    """It may take until tomorrow."""
    assert is_retryable(ApiError(429, "RATE_LIMITED", "Too many requests"), safe=True)
    assert not is_retryable(ApiError(429, "QUOTA_EXCEEDED", "Used up"), safe=True)
