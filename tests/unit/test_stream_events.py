"""The events of streams and their wire format."""

import json

from secretary.api.streams import Event, batch_event, encode_event, job_event, job_event_id
from secretary.core.job import Batch, Job, JobStatus, Progress


def test_an_event_is_four_lines_and_a_blank_one() -> None:
    document = {"text": "ä\n\r\u2028\ud800"}
    lines = encode_event(Event("progress", document), "7").decode("ascii").split("\n")
    assert lines[:3] == ["id: 7", "event: progress", "retry: 2000"]
    assert json.loads(lines[3].removeprefix("data: ")) == document
    assert lines[4:] == ["", ""]


def test_ids_distinguish_states() -> None:
    job = Job(status=JobStatus.PROCESSING, attempt=1)
    states = [
        job,
        job.model_copy(update={"attempt": 2}),
        job.model_copy(update={"progress": Progress(step="x")}),
        job.model_copy(update={"progress": Progress(percent=1)}),
        job.model_copy(update={"status": JobStatus.COMPLETED}),
        job.model_copy(update={"status": JobStatus.COMPLETED, "completed_at": job.created_at}),
    ]
    ids = [job_event_id(state, job_event(state)) for state in states]
    assert len(set(ids)) == len(states)
    assert ids[0] == job_event_id(job, job_event(job))


def test_a_batch_reports_its_progress() -> None:
    counts = {JobStatus.PROCESSING: 1, JobStatus.FAILED: 1, JobStatus.COMPLETED: 1}
    event = batch_event(Batch(counts=counts))
    assert event.name == "progress"
    assert event.document["message"] == "2 of 3 jobs have finished"
    assert event.document["data"]["progress"] == 66
    assert event.document["data"]["failed_jobs"] == 1


def test_a_batch_of_failures_ends_with_an_error() -> None:
    event = batch_event(Batch(counts={JobStatus.FAILED: 1, JobStatus.CANCELLED: 1}))
    assert (event.name, event.document["phase"]) == ("error", "error")
    assert batch_event(Batch()).document["data"]["progress"] == 100
