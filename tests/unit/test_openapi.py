"""The OpenAPI document by itself; tests/acceptance/test_schema.py checks that it is true."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator, validate
from pydantic import BaseModel

from secretary.api import create_api
from secretary.api.auth import SCOPES
from secretary.core.job import EMPTY_RESULTS, Batch, Job, Webhook
from secretary.handlers import BUILTIN
from secretary.jobs.handler import JobContext, Registry, handles
from secretary.jobs.service import JobService
from secretary.jobs.submission import BATCH_EXAMPLE, PDF_EXAMPLE, SESSION_EXAMPLE
from secretary.storage.artifacts import JobFiles
from secretary.store import Store
from tests.backends import files_in


@pytest.fixture
def document(store: Store, tmp_path: Path) -> dict[str, Any]:
    job_service = JobService(store, Registry(BUILTIN), files_in(tmp_path, store))
    return create_api(job_service).openapi()


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_it_is_openapi(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    validate(document, cls=OpenAPIV31SpecValidator)


def test_it_stays_so_with_handlers_from_elsewhere(store: Store, tmp_path: Path) -> None:
    class Crop(BaseModel):
        remaining: int = 0

    class Parameters(BaseModel):
        crop: Crop | None = None

    @handles("pdf", Parameters)
    async def pdf(ctx: JobContext[Parameters]) -> None: ...

    job_service = JobService(store, Registry([pdf]), JobFiles(tmp_path))
    document = create_api(job_service).openapi()
    validate(document, cls=OpenAPIV31SpecValidator)
    assert references(document) <= {f"#/components/schemas/{name}" for name in schemas(document)}


def test_every_operation_says_what_it_is_for(document: dict[str, Any]) -> None:
    for name, operation in operations(document).items():
        assert operation["summary"], name
        assert operation["description"], name
        assert operation["tags"], name


def test_no_two_operations_have_the_same_id(document: dict[str, Any]) -> None:
    ids = Counter(operation["operationId"] for operation in operations(document).values())
    assert ids.most_common(1)[0][1] == 1
    assert {"submit_job", "get_batch", "pdf_process"} <= ids.keys()


def test_every_answer_is_described_by_its_own_status(document: dict[str, Any]) -> None:
    for name, operation in operations(document).items():
        statuses = operation["responses"]
        assert "default" not in statuses, name
        assert any(status < "400" for status in statuses), name
        for status, response in statuses.items():
            response = resolved(document, response)
            assert response["description"], f"{name} {status}"
            assert response.get("content") or status in ("204", "304"), f"{name} {status}"


def test_every_error_has_the_form_of_its_path(document: dict[str, Any]) -> None:
    for name, operation in operations(document).items():
        kind = "LegacyError" if "/api/event-job" in name else "Error"
        for status, response in operation["responses"].items():
            if status >= "400":
                content = resolved(document, response)["content"]
                expected = {"$ref": f"#/components/schemas/{kind}"}
                assert content == {"application/json": {"schema": expected}}, f"{name} {status}"


def test_what_is_open_needs_no_key_and_all_else_does(document: dict[str, Any]) -> None:
    open_ones = {name for name, one in operations(document).items() if not one["security"]}
    paths = ("/api/health", "/api/health/live", "/api/health/ready")
    assert open_ones == {f"GET {path}" for path in paths}
    needed = {name: one["security"] for name, one in operations(document).items()}
    for name, security in needed.items():
        scopes = {tuple(scopes) for scheme in security for scopes in scheme.values()}
        assert name in open_ones or [*map(set, security)] == [{"bearer"}, {"key"}]
        assert name in open_ones or (len(scopes) == 1 and min(scopes)[0] in SCOPES), name
    for name, scope in {
        "GET /api/system": "read",
        "POST /api/jobs": "submit",
        "POST /api/jobs/bulk": "operate",
        "GET /metrics": "metrics",
    }.items():
        assert needed[name] == [{"bearer": [scope]}, {"key": [scope]}]


def test_what_creates_something_says_where_it_is(document: dict[str, Any]) -> None:
    submitted = operations(document)["POST /api/jobs"]["responses"]["202"]
    assert submitted["headers"]["Location"]["required"] is True


def test_no_answer_has_room_for_the_secrets_of_a_webhook(document: dict[str, Any]) -> None:
    shown = document["components"]["schemas"]["WebhookInfo"]
    assert shown["additionalProperties"] is False
    assert shown["properties"]["token"] == shown["properties"]["secret"] == {"type": "null"}
    assert shown["properties"]["headers"]["additionalProperties"] == {"type": "null"}


def test_it_shows_the_examples_that_clients_begin_with(document: dict[str, Any]) -> None:
    assert schemas(document)["JobRequest"]["examples"] == [PDF_EXAMPLE, SESSION_EXAMPLE]
    assert schemas(document)["BatchRequest"]["examples"] == [BATCH_EXAMPLE]


def test_every_schema_is_there_and_used(document: dict[str, Any]) -> None:
    assert references(document) == {f"#/components/schemas/{name}" for name in schemas(document)}


@pytest.mark.parametrize("name", ["Job", "JobSummary", "Batch", "Results"])
def test_every_field_of_a_job_batch_and_results_has_a_type(
    document: dict[str, Any], name: str
) -> None:
    """A generated client sees `results.markdown_content: string | null`, not an empty object."""
    assert list(untyped(document, schemas(document)[name], name)) == []


def test_results_list_what_every_job_type_returns(document: dict[str, Any]) -> None:
    results = schemas(document)["Results"]
    assert set(results["required"]) == set(EMPTY_RESULTS)
    text = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert results["properties"]["markdown_content"] == text
    assert {"extracted_text", "transcription", "subtitles", "metadata"} <= set(
        results["properties"]
    )


def test_documents_have_the_fields_that_are_described(document: dict[str, Any]) -> None:
    webhook = Webhook(url="https://example.org", headers={"X": "1"})
    job = Job(webhook=webhook, results={}).document()
    assert set(job) == set(schemas(document)["Job"]["properties"])
    assert set(job["webhook"]) == set(schemas(document)["WebhookInfo"]["properties"])
    batch = set(schemas(document)["Batch"]["properties"]) - {"jobs", "job_ids"}
    assert set(Batch(webhook=webhook).document()) == batch


def untyped(
    document: dict[str, Any], schema: dict[str, Any], location: str, seen: tuple[str, ...] = ()
) -> Iterator[str]:
    """The places in a schema that do not say what is allowed there."""
    match schema:
        case {"$ref": str(reference)}:
            name = reference.rpartition("/")[2]
            if name not in (*seen, "JsonValue"):  # any JSON, explicitly
                yield from untyped(document, schemas(document)[name], location, (*seen, name))
        case {"anyOf": choices}:
            for choice in choices:
                yield from untyped(document, choice, location, seen)
        case {"type": "array", "items": items}:
            yield from untyped(document, items, f"{location}[]", seen)
        case {"type": "object", "properties": properties}:
            for name, one in properties.items():
                yield from untyped(document, one, f"{location}.{name}", seen)
        case {"type": "object", "additionalProperties": dict(values)}:
            yield from untyped(document, values, f"{location}[]", seen)
        case {"type": "object", "additionalProperties": True} if location.endswith("error.details"):
            return  # they depend on the code
        case {"type": "object" | "array"} | {"type": list()}:
            yield location
        case {"type": _} | {"const": _} | {"enum": _}:
            return
        case _:
            yield location


def schemas(document: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = document["components"]["schemas"]
    return result


def references(document: dict[str, Any]) -> set[str]:
    return set(re.findall(r'"(#/[^"]*/schemas/[^"]*|#/\$defs/[^"]*)"', json.dumps(document)))


def resolved(document: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in response:
        return response
    result: dict[str, Any] = document["components"]["responses"][response["$ref"].split("/")[-1]]
    return result
