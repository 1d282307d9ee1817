"""What events report about the outcome of a job."""

from typing import Any

import pytest

from secretary.core.job import Job, JobStatus
from secretary.jobs.events import EVENT_FIELDS, event_payload

RESULTS: dict[str, Any] = {
    "markdown_file": "/api/files/x.md",
    "markdown_content": "# X",
    "structured_data": {"a": 1},
    "extracted_text": "--- Seite 1 ---\nX",
    "metadata": {"text_contents": [{"page": 1, "content": "X"}]},
    "transcription": {"text": "X", "segments": []},
    "subtitles": None,
}


def completed(job_type: str, results: dict[str, Any] | None) -> Job:
    return Job(job_type=job_type, status=JobStatus.COMPLETED, results=results)


@pytest.mark.parametrize("job_type", ["pdf", "office", "imageocr"])
def test_document_events_carry_the_text(job_type: str) -> None:
    data = {name: RESULTS[name] for name in ("extracted_text", "metadata")}
    assert event_payload(completed(job_type, RESULTS)) == data


def test_archive_links_are_sent_if_there_are_any() -> None:
    data = event_payload(completed("pdf", {"extracted_text": "X", "pages_archive_url": "/api/x"}))
    assert data == {"extracted_text": "X", "metadata": None, "pages_archive_url": "/api/x"}


@pytest.mark.parametrize("job_type", ["audio", "video"])
def test_speech_events_carry_the_transcription(job_type: str) -> None:
    data = {"transcription": RESULTS["transcription"]}
    assert event_payload(completed(job_type, RESULTS)) == data


def test_transformer_events_carry_the_text() -> None:
    data = {"text": "# X", "structured_data": {"a": 1}}
    assert event_payload(completed("transformer", RESULTS)) == data
    results = RESULTS | {"text": "X"}
    assert event_payload(completed("transformer", results)) == data | {"text": "X"}


def test_session_events_carry_the_markdown() -> None:
    data = {"markdown_content": "# X", "markdown_file": "/api/files/x.md"}
    assert event_payload(completed("session", RESULTS)) == data


def test_events_of_other_types_carry_all_results() -> None:
    assert event_payload(completed("other", {"x": 1})) == {"x": 1}
    assert event_payload(completed("other", None)) == {}


@pytest.mark.parametrize("status", sorted(set(JobStatus) - {JobStatus.COMPLETED}))
def test_a_job_that_is_not_completed_has_none(status: JobStatus) -> None:
    assert event_payload(Job(job_type="pdf", status=status, results=RESULTS)) is None


@pytest.mark.parametrize("job_type", sorted(EVENT_FIELDS))
def test_results_have_all_that_events_have(job_type: str) -> None:
    """Clients whose stream broke poll the job, and read its results like the data of an event."""
    job = completed(job_type, RESULTS | {"text": None, "images_archive_url": "/api/x"})
    data = event_payload(job)
    assert data is not None
    assert {name: job.document()["results"][name] for name in data} == data


@pytest.mark.parametrize("job_type", sorted(EVENT_FIELDS))
def test_events_do_not_contain_the_results_again(job_type: str) -> None:
    """Readers of streams would prefer them."""
    data = event_payload(completed(job_type, RESULTS | {"results": {}}))
    assert data is not None and "results" not in data
