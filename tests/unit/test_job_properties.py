"""Any job or batch survives a round trip through JSON, and reveals no secret."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secretary.core.job import (
    Batch,
    Job,
    JobError,
    JobStatus,
    LogEntry,
    Progress,
    StoredModel,
    Webhook,
)
from secretary.store.mongo import schema
from secretary.webhooks.request import body, headers_for

from ..strategies import BATCH, ERROR, JOB, LOG, NEW_BATCH, NEW_JOB, PROGRESS, TEXT, WEBHOOK

SECRET = "sEcReT-oF-a-WeBhOoK"


@given(st.one_of(JOB, BATCH, ERROR, PROGRESS, LOG, WEBHOOK))
@settings(max_examples=40)
def test_it_comes_back_from_json_and_from_a_mapping(one: StoredModel) -> None:
    kind: type[Job | Batch | JobError | Progress | LogEntry | Webhook] = type(one)  # type: ignore[assignment]
    names: Any = None
    if isinstance(one, Job):
        names = {"deliveries": {"__all__": {"gave_up"}}}  # derived, not stored
    text = one.model_dump_json(by_alias=True, exclude=names)
    assert kind.model_validate_json(text) == one
    assert kind.model_validate(one.model_dump(exclude=names)) == one
    assert kind.model_validate(json.loads(text)) == one


@given(JOB, st.sampled_from(("token", "secret", "header")))
@settings(max_examples=40)
def test_no_secret_of_a_webhook_is_in_what_clients_see(job: Job, where: str) -> None:
    given_in: dict[str, Any] = {"headers": {"x": SECRET}} if where == "header" else {where: SECRET}
    hook = Webhook(url="https://a/", **given_in)
    document = job.model_copy(update={"webhook": hook}).document()
    assert SECRET not in json.dumps(document, allow_nan=False)
    assert document["webhook"]["url"] == "https://a/"


@given(BATCH)
@settings(max_examples=40)
def test_the_counters_of_a_batch_add_up(batch: Batch) -> None:
    document = batch.document()
    assert sum(document[f"{status}_jobs"] for status in JobStatus) == document["total_jobs"]
    ended = not document["pending_jobs"] and not document["processing_jobs"]
    assert (document["status"] in ("completed", "failed")) is ended
    json.dumps(document, allow_nan=False)


@given(NEW_JOB)
@settings(max_examples=40)
def test_a_document_of_mongodb_holds_all_of_a_new_job(job: Job) -> None:
    stored = {
        **schema.job_document(job, arrival=1),
        "parameters": schema.to_bson(job.parameters),
    }
    assert schema.job_from(stored) == job.model_copy(update={"updated_at": job.created_at})
    assert all(not name.startswith("$") and "." not in name for name in stored)


@given(NEW_BATCH)
@settings(max_examples=40)
def test_a_document_of_mongodb_holds_all_of_a_new_batch(batch: Batch) -> None:
    assert schema.batch_from(schema.batch_document(batch, arrival=1), {}) == batch


@given(JOB.filter(lambda job: job.webhook is not None))
@settings(max_examples=40)
def test_any_event_can_be_written_and_its_headers_sent(job: Job) -> None:
    assert job.webhook is not None
    sent = body(job, job.webhook)
    event = json.loads(sent)
    assert event["process"]["id"] == event["job_id"] == job.job_id
    assert event["phase"] != "failed"
    assert (event["error"] is not None) == (event["phase"] == "error" and job.error is not None)
    headers = headers_for(job.webhook, message_id="msg_1", at=job.created_at, body=sent)
    assert headers["webhook-id"] == "msg_1"
    assert ("webhook-signature" in headers) == bool(job.webhook.secret)
    for each in headers.get("webhook-signature", "v1,x").split(" "):
        assert each.startswith("v1,") and len(each) > 3


@pytest.mark.parametrize("percent", [-1, 101, 1.5, "x", None])
def test_a_percentage_is_one(percent: Any) -> None:
    with pytest.raises(ValueError, match="percent"):
        Progress(percent=percent)


@given(TEXT)
@settings(max_examples=40)
def test_the_receiver_of_any_url_has_a_name_without_its_password(text: str) -> None:
    endpoint = Webhook(url=f"https://user:{SECRET}@{text}").endpoint
    assert SECRET.lower() not in endpoint or "@" in text or "/" in text or "\\" in text
