import json
import math
from hashlib import sha256
from typing import Any

import pytest
from pydantic import BaseModel, Field

from secretary.core.errors import AccessDenied, AddressRefused, InvalidParameters
from secretary.core.job import Job, flatten_parameters
from secretary.jobs.handler import JobContext, Registry, handles
from secretary.jobs.submission import (
    BatchRequest,
    JobRequest,
    fingerprint,
    make_batch,
    make_job,
    parse_request,
)


class PdfParameters(BaseModel):
    url: str
    pages: int = Field(default=1, ge=1)


@handles("pdf", PdfParameters)
async def pdf(ctx: JobContext[PdfParameters]) -> None: ...


REGISTRY = Registry([pdf])
HOOK = {"url": "https://example.org/hook", "token": "t"}


def job_from(document: Any, *, user: str | None = None) -> Job:
    return make_job(parse_request(JobRequest, document), REGISTRY, user=user)


def problems(document: Any, kind: type[JobRequest | BatchRequest] = JobRequest) -> dict[str, str]:
    with pytest.raises(InvalidParameters) as caught:
        request = parse_request(kind, document)
        if isinstance(request, JobRequest):
            make_job(request, REGISTRY, user=None)
        else:
            make_batch(request, REGISTRY, user=None)
    assert caught.value.code == "VALIDATION_ERROR"
    return {one["field"]: one["problem"] for one in caught.value.details["problems"]}


class TestAliases:
    @pytest.mark.parametrize(
        ("name", "job_type", "more"),
        [
            ("transformer_template", "transformer", {}),
            ("youtube", "video", {}),
            ("office_via_pdf", "office", {"via_pdf": True}),
        ],
    )
    def test_an_earlier_name_of_a_job_type_is_accepted(
        self, name: str, job_type: str, more: dict[str, Any]
    ) -> None:
        document = {"job_type": name, "parameters": {"url": "https://example.org/a"}}
        _, (in_batch,) = make_batch(
            parse_request(BatchRequest, {"jobs": [document]}), REGISTRY, user=None
        )
        for job in (job_from(document), in_batch):
            assert job.job_type == job_type
            assert flatten_parameters(job.parameters) == {"url": "https://example.org/a", **more}

    def test_a_handler_of_that_name_takes_precedence(self) -> None:
        @handles("youtube")
        async def youtube(ctx: JobContext[Any]) -> None: ...

        request = parse_request(JobRequest, {"job_type": "youtube"})
        assert make_job(request, Registry([youtube]), user=None).job_type == "youtube"


class TestOneJob:
    @pytest.mark.parametrize("document", [{}, {"job_type": None}, {"job_type": ""}])
    def test_without_a_type_it_is_a_session(self, document: dict[str, Any]) -> None:
        assert job_from(document).job_type == "session"

    def test_a_time_with_another_offset_is_converted_to_utc(self) -> None:
        job = job_from({"run_at": "2030-01-01T00:00:00+02:00"})
        assert job.document()["run_at"] == "2029-12-31T22:00:00Z"

    def test_what_the_client_says_is_what_the_job_has(self) -> None:
        job = job_from(
            {
                "job_type": "pdf",
                "parameters": {"url": "a.pdf"},
                "job_name": "Report",
                "user_id": "ann",
                "access_control": {"read_access": ["bob"]},
                "priority": 5,
                "run_at": "2030-01-01T00:00:00Z",
                "max_attempts": 7,
                "timeout_s": 1.5,
                "webhook": HOOK,
            }
        )
        assert job.parameters == {"url": "a.pdf"}
        assert (job.job_name, job.user_id, job.priority) == ("Report", "ann", 5)
        assert job.access_control.read_access == ("bob",)
        assert job.run_at is not None and job.run_at.year == 2030
        assert (job.max_attempts, job.timeout_s) == (7, 1.5)
        assert job.webhook is not None and job.webhook.token == "t"

    def test_keys_that_nobody_knows_are_kept_under_extra(self) -> None:
        job = job_from({"job_type": "pdf", "parameters": {"url": "a", "x": 1}, "y": 2})
        assert job.parameters == {"url": "a", "extra": {"x": 1, "y": 2}}

    def test_what_stands_in_the_parameters_wins_over_what_stands_beside_them(self) -> None:
        job = job_from({"parameters": {"extra": {"x": "inner"}}, "x": "outer"})
        assert job.parameters == {"extra": {"x": "inner"}}

    def test_an_odd_extra_loses_nothing_either(self) -> None:
        job = job_from({"parameters": {"extra": "text"}, "x": 1})
        assert job.parameters == {"extra": "text", "x": 1}

    @pytest.mark.parametrize(
        "parameters", [{"webhook": HOOK}, {"extra": {"webhook": HOOK}}, {"x": 1, "webhook": HOOK}]
    )
    def test_a_webhook_among_the_parameters_is_taken_out_of_them(
        self, parameters: dict[str, Any]
    ) -> None:
        job = job_from({"job_type": "other", "parameters": parameters})
        assert job.webhook is not None and job.webhook.url == HOOK["url"]
        assert "token" not in str(job.parameters)

    def test_the_webhook_beside_the_parameters_wins(self) -> None:
        other = {"url": "https://example.org/other"}
        job = job_from({"parameters": {"webhook": other}, "webhook": HOOK})
        assert job.webhook is not None and job.webhook.url == HOOK["url"]
        assert "webhook" not in job.parameters

    def test_an_unknown_type_takes_any_parameters(self) -> None:
        assert job_from({"job_type": "new", "parameters": {"a": 1}}).parameters == {"a": 1}


class TestWebhooks:
    def refuse_private(self, url: str) -> None:
        if "private" in url:
            raise AddressRefused("private is not a public address")

    @pytest.mark.parametrize(
        ("document", "field"),
        [
            ({"webhook": {"url": "https://private/"}}, "webhook.url"),
            ({"parameters": {"webhook": {"url": "https://private/"}}}, "parameters.webhook.url"),
            ({"webhook": {**HOOK, "events": ["completed", "finished"]}}, "webhook.events"),
            ({"webhook": {**HOOK, "headers": {"A b": "c"}}}, "webhook.headers"),
            ({"webhook": {**HOOK, "headers": {"A": "SECRET\r\nB: c"}}}, "webhook.headers"),
            ({"webhook": {**HOOK, "token": "SECRET\nB: c"}}, "webhook.token"),
        ],
    )
    def test_what_could_never_be_sent_is_refused_by_field_without_telling_secrets(
        self, document: Any, field: str
    ) -> None:
        with pytest.raises(InvalidParameters) as caught:
            request = parse_request(JobRequest, document)
            make_job(request, REGISTRY, user=None, check_url=self.refuse_private)
        assert [problem["field"] for problem in caught.value.details["problems"]] == [field]
        assert "SECRET" not in str(caught.value)

    def test_the_webhook_of_a_batch_and_of_each_job_is_checked(self) -> None:
        private = {"url": "https://private/"}
        for document, field in (
            ({"jobs": [{}], "webhook": private}, "webhook.url"),
            ({"jobs": [{}, {"webhook": private}]}, "jobs.1.webhook.url"),
        ):
            with pytest.raises(InvalidParameters) as caught:
                request = parse_request(BatchRequest, document)
                make_batch(request, REGISTRY, user=None, check_url=self.refuse_private)
            assert [one["field"] for one in caught.value.details["problems"]] == [field]

    def test_a_jobs_own_webhook_wins_over_that_of_its_batch_wherever_it_is(self) -> None:
        own = {"url": "https://own.example/"}
        jobs = [{}, {"webhook": own}, {"parameters": {"webhook": own}}]
        request = parse_request(BatchRequest, {"jobs": jobs, "webhook": HOOK})
        _, made = make_batch(request, REGISTRY, user=None)
        urls = [job.webhook and job.webhook.url for job in made]
        assert urls == [HOOK["url"], own["url"], own["url"]]


class TestRefusals:
    @pytest.mark.parametrize(
        ("document", "field"),
        [
            ({"job_type": "pdf"}, "parameters.url"),
            ({"job_type": "pdf", "parameters": {"url": "a", "pages": 0}}, "parameters.pages"),
            ({"parameters": [1]}, "parameters"),
            ({"priority": 101}, "priority"),
            ({"run_at": "2030-01-01T00:00:00"}, "run_at"),
            ({"run_at": "soon"}, "run_at"),
            ({"run_at": "9999-12-31T23:59:59-12:00"}, "run_at"),
            ({"run_at": "0001-01-01T00:00:00+14:00"}, "run_at"),
            ({"timeout_s": 0}, "timeout_s"),
            ({"timeout_s": "inf"}, "timeout_s"),
            ({"max_attempts": 0}, "max_attempts"),
            ({"job_type": "x" * 101}, "job_type"),
            ({"webhook": {}}, "webhook.url"),
            ({"parameters": {"webhook": "x"}}, "parameters.webhook"),
            ({"access_control": {"visibility": "secret"}}, "access_control.visibility"),
            ([], ""),
        ],
    )
    def test_each_wrong_field_is_named(self, document: Any, field: str) -> None:
        assert field in problems(document)

    def test_all_wrong_fields_are_named_at_once(self) -> None:
        assert set(problems({"priority": 101, "timeout_s": 0})) == {"priority", "timeout_s"}

    @pytest.mark.parametrize(
        "value", [math.nan, math.inf, 2**63, -(2**63) - 1, "\ud800", {"\udfff": 1}]
    )
    def test_what_no_store_can_hold_is_refused(self, value: Any) -> None:
        assert problems({"parameters": {"x": [value]}})

    def test_a_document_of_endless_depth_is_refused(self) -> None:
        deep: list[Any] = []
        for _ in range(500):
            deep = [deep]
        assert "nested" in problems({"parameters": {"x": deep}})[""]

    @pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 1e308, "ü\0", None, True])
    def test_what_just_fits_is_taken(self, value: Any) -> None:
        assert job_from({"parameters": {"x": [value]}}).parameters == {"x": [value]}


class TestWhoseJob:
    def test_the_acting_user_owns_the_job(self) -> None:
        assert job_from({}, user="ann").user_id == "ann"
        assert job_from({"user_id": "ann"}, user="ann").user_id == "ann"

    def test_an_operator_may_submit_for_anybody(self) -> None:
        assert job_from({"user_id": "ann"}).user_id == "ann"

    def test_a_user_cannot_submit_for_another(self) -> None:
        with pytest.raises(AccessDenied):
            job_from({"user_id": "bob"}, user="ann")


class TestBatches:
    def test_jobs_have_from_the_batch_what_they_do_not_say_themselves(self) -> None:
        other = {"url": "https://example.org/other"}
        document = {
            "batch_name": "Import",
            "user_id": "ann",
            "access_control": {"visibility": "public"},
            "webhook": HOOK,
            "colour": "red",
            "jobs": [{}, {"webhook": other, "access_control": {}, "colour": "blue"}],
        }
        batch, (first, second) = make_batch(
            parse_request(BatchRequest, document), REGISTRY, user=None
        )
        assert (batch.batch_name, batch.user_id) == ("Import", "ann")
        assert first.batch_id == second.batch_id == batch.batch_id
        assert (first.user_id, first.access_control.visibility) == ("ann", "public")
        assert first.webhook == batch.webhook
        assert first.parameters == {"extra": {"colour": "red"}}
        assert second.webhook is not None and second.webhook.url == other["url"]
        assert second.access_control.visibility == "private"
        assert second.parameters == {"extra": {"colour": "blue"}}

    def test_a_batch_may_come_wrapped(self) -> None:
        document = {"batch": {"batch_name": "Import", "jobs": [{}]}, "user_id": "ann"}
        request = parse_request(BatchRequest, document)
        assert (request.batch_name, request.user_id, len(request.jobs)) == ("Import", "ann", 1)

    def test_the_wrong_field_of_one_of_its_jobs_is_named(self) -> None:
        document = {"jobs": [{}, {"job_type": "pdf"}]}
        assert "jobs.1.parameters.url" in problems(document, BatchRequest)

    @pytest.mark.parametrize("document", [{}, {"jobs": []}, {"jobs": "x"}, {"batch": {}}])
    def test_a_batch_needs_jobs(self, document: dict[str, Any]) -> None:
        assert "jobs" in problems(document, BatchRequest)


class TestFingerprint:
    def test_the_order_of_keys_does_not_count(self) -> None:
        one = parse_request(JobRequest, {"parameters": {"a": 1, "b": 2}})
        two = parse_request(JobRequest, {"parameters": {"b": 2, "a": 1}})
        assert fingerprint(one) == fingerprint(two)

    def test_every_value_counts(self) -> None:
        documents: list[dict[str, Any]] = [{}, {"x": 1}, {"priority": 1}, {"parameters": {"x": 1}}]
        assert (
            len({fingerprint(parse_request(JobRequest, document)) for document in documents}) == 4
        )


def test_keys_of_versions_without_retention_stay_valid() -> None:
    """Their fingerprints are stored; a request without a retention must have the same."""
    plain, kept = JobRequest(job_type="pdf"), JobRequest(job_type="pdf", retention_days=1)
    document = plain.model_dump(mode="json", by_alias=True, exclude={"traceparent"})
    del document["retention_days"]
    text = json.dumps(["JobRequest", document], sort_keys=True)
    assert fingerprint(plain) == sha256(text.encode()).hexdigest()
    assert fingerprint(kept) != fingerprint(plain)
    assert fingerprint(BatchRequest(jobs=[kept])) != fingerprint(BatchRequest(jobs=[plain]))
