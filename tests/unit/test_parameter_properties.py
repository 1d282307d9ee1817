"""Any parameters sent to any job type give a job, or an error that names the invalid ones."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from secretary.api.ingress import ROUTES, IngressRoute, read_submission
from secretary.api.requests import MAX_NAME_LENGTH, Form
from secretary.core.errors import AccessDenied, InvalidParameters
from secretary.core.job import Job, flatten_parameters
from secretary.handlers import BUILTIN
from secretary.jobs.handler import Registry
from secretary.jobs.submission import (
    BatchRequest,
    JobRequest,
    fingerprint,
    make_batch,
    make_job,
    parse_request,
)

from ..strategies import ANY_TEXT, JSON, OBJECT, TEXT

REGISTRY = Registry(BUILTIN)
TYPES = sorted(handler.job_type for handler in BUILTIN)
#: Values that are valid for some parameter, so that invalid ones are mixed with valid ones.
LIKELY = st.sampled_from(
    ["native", "auto", "deu+eng", "de", "en-GB", "https://example.com/a.pdf", "a/b.pdf", "true",
     "0", 1, 0, -1, True, False, None, "", "2026-01-31", "Session", "# {{a|b}}", "html", '{"a": 1}',
     "[1]", {"type": "path", "path": "a"}, {"type": "upload"}, ["a"], 10**18, 1.5, "9" * 5000]
)  # fmt: skip
#: Values that JSON text cannot contain, but that some JSON parsers return.
ODD = st.floats() | st.integers() | ANY_TEXT


def names_of(job_type: str) -> list[str]:
    fields = REGISTRY[job_type].parameters.model_fields
    return [*fields, *(to_camel(name) for name in fields), "extra", "webhook", "unknown"]


@st.composite
def parameters(draw: st.DrawFn, job_type: str) -> dict[str, Any]:
    names = st.sampled_from(names_of(job_type))
    values = LIKELY | JSON | ODD
    drawn: dict[str, Any] = draw(st.dictionaries(names, values, max_size=6))
    if draw(st.booleans()):
        drawn["extra"] = draw(st.dictionaries(names, values, max_size=3))
    return drawn


def checked(error: InvalidParameters) -> None:
    """As the API reports it: each problem has a field and a message."""
    assert error.code == "VALIDATION_ERROR"
    assert error.details["problems"]
    for problem in error.details["problems"]:
        assert problem["problem"]
        assert isinstance(problem["field"], str)
    json.dumps(error.details)
    assert "Traceback" not in error.message


@pytest.mark.parametrize("job_type", TYPES)
@given(data=st.data())
@settings(max_examples=40)
def test_a_job_comes_of_them_or_a_named_error(job_type: str, data: st.DataObject) -> None:
    sent = data.draw(parameters(job_type))
    handler = REGISTRY[job_type]
    try:
        request = parse_request(JobRequest, {"job_type": job_type, "parameters": sent})
        job = make_job(request, REGISTRY, user=None)
    except InvalidParameters as error:
        checked(error)
        return
    stored = json.loads(json.dumps(job.parameters, allow_nan=False))
    # What was accepted is accepted again when the job runs, with the same meaning.
    assert handler.parse(stored) == handler.parse(without_webhook(request.parameters))
    assert handler.normalize(stored) == stored
    assert "webhook" not in flatten_parameters(stored) or sent.get("webhook") is None


def without_webhook(sent: dict[str, Any]) -> dict[str, Any]:
    """It is not a parameter: if clients put it among them, it is removed."""
    remaining = {name: value for name, value in sent.items() if name != "webhook" or value is None}
    if isinstance(extra := remaining.get("extra"), dict):
        remaining["extra"] = without_webhook(extra)
    return remaining


@given(JSON)
def test_any_document_is_a_request_or_a_named_error(document: Any) -> None:
    for kind in (JobRequest, BatchRequest):
        try:
            request = parse_request(kind, document)
        except InvalidParameters as error:
            checked(error)
        else:
            assert fingerprint(request) == fingerprint(parse_request(kind, document))


#: A request with the fields of jobs themselves.
REQUEST = st.fixed_dictionaries(
    {},
    optional={
        "job_type": st.sampled_from([*TYPES, "unknown", "", None]) | JSON,
        "parameters": OBJECT | JSON,
        "priority": st.integers() | JSON,
        "run_at": st.sampled_from(["2026-01-31T10:00:00Z", "0001-01-01T00:00:00+14:00", 0, 1e30])
        | JSON,
        "timeout_s": ODD | JSON,
        "max_attempts": JSON,
        "user_id": TEXT | JSON,
        "webhook": st.fixed_dictionaries({"url": TEXT}, optional={"events": JSON, "headers": JSON})
        | JSON,
        "access_control": JSON,
        "job_name": JSON,
        "traceparent": JSON,
        "unknown": JSON,
    },
)


@given(REQUEST, st.none() | st.just("ann"))
def test_whatever_a_request_says_of_a_job(document: dict[str, Any], user: str | None) -> None:
    batch = {"jobs": [document], "webhook": document.get("webhook")}
    try:
        job = make_job(parse_request(JobRequest, document), REGISTRY, user=user)
        _, (again,) = make_batch(parse_request(BatchRequest, batch), REGISTRY, user=user)
    except InvalidParameters as error:
        checked(error)
    except AccessDenied:
        assert user is not None
    else:
        assert isinstance(job, Job)
        assert again.parameters == job.parameters
        json.dumps(job.document(), allow_nan=False)


FIELDS = st.dictionaries(
    st.sampled_from(
        ["url", "file", "file_path", "fileSource", "waitMs", "wait_ms", "sync", "callback_url",
         "callbackToken", "jobId", "job_id", "webhook", "accessControl", "priority", "useCache",
         "context", "template_content", "extraction_method", "page_start",
         "x" * (MAX_NAME_LENGTH + 1)]
    )
    | ANY_TEXT,
    ANY_TEXT | LIKELY | JSON,
    max_size=6,
)  # fmt: skip


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
@given(fields=FIELDS)
@settings(max_examples=25)
def test_any_form_is_a_request_or_a_named_error(
    route: IngressRoute, fields: dict[str, Any]
) -> None:
    try:
        submitted = read_submission(Form(dict(fields)), route)
        job = make_job(submitted, REGISTRY, user=None)
    except InvalidParameters as error:
        assert error.code == "VALIDATION_ERROR"
        assert error.message
        json.dumps(error.details)
    else:
        assert job.job_type == route.job_type
        assert not {"callback_url", "callback_token", "wait_ms"} & job.parameters.keys()
