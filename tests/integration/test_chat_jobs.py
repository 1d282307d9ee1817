"""Chat through the whole service, with a scripted model: what a client sends and reads."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ..llm_fixture import service_with_models
from ..llm_server import Reads, fails, hangs, llm_server, rejects, says
from ..service_fixture import ServiceClient, running_service
from ..webhook_receiver import Receiver

CHAT = "/api/transformer/chat"
QUESTION = [
    {"role": "system", "content": "You answer briefly."},
    {"role": "user", "content": "What is a leap year?"},
]
SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "answer": {"type": "string"},
        "usedReferences": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["answer"],
}
ANSWER = {"answer": "A year of 366 days.", "usedReferences": [1, 2]}
#: As the client application sends it.
REQUEST: dict[str, Any] = {
    "messages": QUESTION,
    "model": "google/gemini-2.5-flash",
    "temperature": 0.3,
    "use_cache": True,
    "timeout_ms": 240000,
}
JSON_REQUEST = {
    **REQUEST,
    "response_format": "json_object",
    "schema_json": json.dumps(SCHEMA),
    "strict": False,
    "schema_id": "answer",
}


async def answered(service: ServiceClient, **fields: Any) -> dict[str, Any]:
    response = await service.client.post(CHAT, json=fields)
    assert response.status_code == 200, response.text
    document: dict[str, Any] = response.json()
    assert document["status"] == "success" and document["error"] is None
    return document


class TestText:
    async def test_the_answer_comes_in_the_response(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, says("A year of 366 days.")) as (service, server):
            document = await answered(service, **REQUEST)
        assert document["data"]["text"] == "A year of 366 days."
        assert document["data"]["structured_data"] is None
        info = document["process"]["llm_info"]
        assert info["total_tokens"] == 120
        (request,) = info["requests"]
        assert (request["tokens"], request["model"]) == (120, "google/gemini-2.5-flash")
        (sent,) = server.requests
        assert sent["messages"] == QUESTION
        assert (sent["model"], sent["temperature"]) == ("google/gemini-2.5-flash", 0.3)
        assert "max_tokens" not in sent and "response_format" not in sent

    async def test_messages_may_be_json_text_and_other_fields_a_form(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, says("Yes")) as (service, server):
            form = {"messages": json.dumps(QUESTION), "max_tokens": "50", "temperature": "0"}
            response = await service.client.post(CHAT, data=form)
            assert response.status_code == 200, response.text
        (sent,) = server.requests
        assert (sent["messages"], sent["max_tokens"]) == (QUESTION, 50)
        assert (sent["temperature"], sent["model"]) == (0, "scripted")

    async def test_a_question_of_600_kb_is_accepted(self, tmp_path: Path) -> None:
        long = [{"role": "user", "content": "word " * 120_000}]
        async with service_with_models(tmp_path, says("Read")) as (service, server):
            document = await answered(service, messages=long)
        assert document["data"]["text"] == "Read"
        assert server.requests[0]["messages"] == long

    async def test_an_unknown_provider_is_a_warning(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, says("Yes")) as (service, _):
            document = await answered(service, messages=QUESTION, provider="openrouter")
        (warning,) = document["data"]["warnings"]
        assert warning["code"] == "UNKNOWN_PROVIDER" and "openrouter" in warning["message"]

    async def test_a_configured_provider_is_used(self, tmp_path: Path) -> None:
        async with llm_server(says("From the other")) as other:
            providers = {"other": {"base_url": other.web.url("/v1")}}
            async with service_with_models(tmp_path, says("No"), providers=providers) as (
                service,
                server,
            ):
                fields = {"provider": "other", "model": "big"}
                document = await answered(service, messages=QUESTION, **fields)
            assert document["data"]["text"] == "From the other"
            assert document["data"]["warnings"] == [] and server.requests == []
            assert other.requests[0]["model"] == "big"

    async def test_an_answer_as_long_as_allowed_is_marked(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, says("A ye", finish_reason="length")) as (
            service,
            _,
        ):
            document = await answered(service, messages=QUESTION, max_tokens=2)
            assert document["data"]["text"] == "A ye"
            assert document["data"]["warnings"][0]["code"] == "ANSWER_CUT_OFF"
            response = await service.client.post(CHAT, json={"messages": QUESTION})
            assert response.status_code == 502, response.text

    async def test_a_model_that_knows_no_temperature_is_asked_without(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, rejects("temperature", says("Yes"))) as (
            service,
            server,
        ):
            assert (await answered(service, **REQUEST))["data"]["text"] == "Yes"
            assert len(server.requests) == 2
            await answered(service, **{**REQUEST, "use_cache": False})
            assert len(server.requests) == 3, "it is remembered"

    async def test_max_tokens_has_another_name_at_some_models(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, rejects("max_tokens", says("Yes"))) as (
            service,
            server,
        ):
            await answered(service, messages=QUESTION, max_tokens=7)
        assert server.requests[-1]["max_completion_tokens"] == 7


class TestJson:
    @pytest.mark.parametrize(
        "wrapped", ["{}", "```json\n{}\n```", "Here you are:\n\n{}\n\nAnything else?"]
    )
    async def test_the_object_is_found_in_the_answer(self, tmp_path: Path, wrapped: str) -> None:
        reply = says(wrapped.replace("{}", json.dumps(ANSWER)))
        async with service_with_models(tmp_path, reply) as (service, server):
            document = await answered(service, **JSON_REQUEST)
        assert document["data"]["structured_data"] == ANSWER
        assert json.loads(document["data"]["text"]) == ANSWER
        assert document["data"]["metadata"]["schema_id"] == "answer"
        (sent,) = server.requests
        assert sent["response_format"] == {"type": "json_object"}
        assert "usedReferences" in sent["messages"][0]["content"]

    async def test_an_object_that_does_not_fit_is_repaired_once(self, tmp_path: Path) -> None:
        replies = (says(json.dumps({"answer": 7})), says(json.dumps(ANSWER)))
        async with service_with_models(tmp_path, *replies) as (service, server):
            document = await answered(service, **JSON_REQUEST)
        assert document["data"]["structured_data"] == ANSWER
        assert document["data"]["warnings"] == [] and len(server.requests) == 2
        assert document["process"]["llm_info"]["total_tokens"] == 240

    async def test_the_best_object_is_returned_unless_strict(self, tmp_path: Path) -> None:
        nearly = {"answer": 7}
        replies = (says(json.dumps(nearly)), says("I cannot do that."))
        async with service_with_models(tmp_path, *replies) as (service, _):
            document = await answered(service, **JSON_REQUEST)
            assert document["data"]["structured_data"] == nearly
            (warning,) = document["data"]["warnings"]
            assert warning["code"] == "SCHEMA_MISMATCH" and "answer" in warning["message"]

    async def test_strict_fails_if_the_schema_does_not_fit(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, says('{"answer": 7}')) as (service, _):
            body = {**JSON_REQUEST, "strict": True, "max_attempts": 1}
            response = await service.client.post(CHAT, json=body)
        assert response.status_code == 502, response.text
        error = response.json()["error"]
        assert (
            error["code"] == "UPSTREAM_FAILED" and "does not match the schema" in error["message"]
        )

    async def test_an_answer_without_any_object_is_an_error(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, says("No idea")) as (service, _):
            body = {**JSON_REQUEST, "max_attempts": 1}
            response = await service.client.post(CHAT, json=body)
        assert response.status_code == 502, response.text
        assert "not a JSON object" in response.json()["error"]["message"]

    async def test_openais_form_and_a_server_without_json_mode_work(self, tmp_path: Path) -> None:
        def reply(request: dict[str, Any]) -> Any:
            if "response_format" in request:
                return fails("400 Bad Request", "json mode is not supported")
            return says('{"a": 1}')

        async with service_with_models(tmp_path, Reads(reply)) as (service, server):
            fields = {"messages": QUESTION, "response_format": {"type": "json_object"}}
            document = await answered(service, **fields)
            assert document["data"]["structured_data"] == {"a": 1}
            await answered(service, **fields, use_cache=False)
            assert len(server.requests) == 3

    async def test_a_failed_repair_does_not_lose_the_first_answer(self, tmp_path: Path) -> None:
        replies = (says('{"answer": 7}'), fails("400 Bad Request", "context length exceeded"))
        async with service_with_models(tmp_path, *replies) as (service, _):
            document = await answered(service, **JSON_REQUEST)
        assert document["data"]["structured_data"] == {"answer": 7}


class TestCache:
    async def test_an_equal_request_is_answered_from_the_cache(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, says("One"), says("Two")) as (service, server):
            first = await answered(service, **REQUEST)
            again = await answered(service, **REQUEST)
            assert again["data"]["text"] == first["data"]["text"] == "One"
            assert again["process"]["is_from_cache"] and not first["process"]["is_from_cache"]
            assert again["process"]["llm_info"]["total_tokens"] == 0
            assert len(server.requests) == 1
            fresh = await answered(service, **{**REQUEST, "use_cache": False})
            assert fresh["data"]["text"] == "Two"
            assert (await answered(service, **REQUEST))["data"]["text"] == "Two", "the latest"

    @pytest.mark.parametrize(
        "change",
        [{"temperature": 0.1}, {"model": "other"}, {"max_tokens": 9}, {"messages": QUESTION[1:]}],
    )
    async def test_another_request_is_not(self, tmp_path: Path, change: dict[str, Any]) -> None:
        async with service_with_models(tmp_path, says("One"), says("Two")) as (service, _):
            await answered(service, **REQUEST)
            assert (await answered(service, **{**REQUEST, **change}))["data"]["text"] == "Two"


class TestErrors:
    @pytest.mark.parametrize(
        ("fields", "named"),
        [
            ({}, "messages: Field required"),
            ({"messages": []}, "messages"),
            ({"messages": "hello"}, "messages: it must be JSON"),
            ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role"),
            ({"messages": [{"role": "user"}]}, "messages.0.content"),
            ({"messages": [{"role": "user", "content": " "}]}, "messages: all messages are empty"),
            ({"messages": QUESTION, "temperature": 9}, "temperature"),
            ({"messages": QUESTION, "response_format": "xml"}, "response_format"),
            ({"messages": QUESTION, "schema_json": "{"}, "schema_json: it must be JSON"),
            ({"messages": QUESTION, "schema_json": '{"type": "objekt"}'}, "schema_json"),
            ({"messages": QUESTION, "schema_json": '{"a":' * 500 + "1" + "}" * 500}, "schema_json"),
            ({"messages": QUESTION, "timeout_ms": 0}, "timeout_ms"),
        ],
    )
    async def test_a_field_that_is_wrong_is_a_400_that_names_it(
        self, tmp_path: Path, fields: dict[str, Any], named: str
    ) -> None:
        async with running_service(tmp_path) as service:
            response = await service.client.post(CHAT, json=fields)
            assert response.status_code == 400, response.text
            assert named in response.json()["error"]["message"]

    async def test_without_a_model_the_error_names_the_setting(self, tmp_path: Path) -> None:
        async with running_service(tmp_path) as service:
            response = await service.client.post(CHAT, json=REQUEST)
        assert response.status_code == 503, response.text
        error = response.json()["error"]
        assert error["code"] == "ENGINE_UNAVAILABLE" and "llm.chat_model" in error["message"]

    async def test_a_model_that_is_too_slow_is_a_504(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, hangs) as (service, _):
            response = await service.client.post(
                CHAT, json={"messages": QUESTION, "timeout_ms": 200}
            )
        assert response.status_code == 504, response.text
        assert response.json()["error"]["code"] == "PROCESSING_TIMEOUT"

    async def test_a_model_the_endpoint_does_not_know_is_a_502(self, tmp_path: Path) -> None:
        reply = fails("404 Not Found", "The model `x` does not exist")
        async with service_with_models(tmp_path, reply) as (service, _):
            response = await service.client.post(CHAT, json=REQUEST)
        assert response.status_code == 502, response.text
        assert "does not exist" in response.json()["error"]["message"]


class TestOtherWays:
    async def test_it_can_be_polled(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, says(json.dumps(ANSWER))) as (service, _):
            response = await service.client.post(CHAT, json={**JSON_REQUEST, "async": True})
            assert response.status_code == 202, response.text
            job = await service.ended(response.json()["job_id"])
            assert job["status"] == "completed" and job["job_type"] == "chat"
            assert job["results"]["structured_data"] == ANSWER
            assert (await service.get(job["results"]["text_file"])).json() == ANSWER

    async def test_it_can_be_sent_to_a_callback(self, tmp_path: Path) -> None:
        receiver = Receiver()
        with receiver.running():
            groups = {"network": {"allow_hosts": [receiver.host]}}
            async with service_with_models(tmp_path, says("Yes"), groups=groups) as (service, _):
                body = {**REQUEST, "callback_url": receiver.url()}
                response = await service.client.post(CHAT, json=body)
                assert response.status_code == 202, response.text
                await service.ended(response.json()["job_id"])
                event = await last_event(receiver)
        assert event["phase"] == "completed" and event["data"]["text"] == "Yes"

    async def test_a_restarted_job_asks_again(self, tmp_path: Path) -> None:
        replies = (fails("400 Bad Request", "no"), says("Yes"))
        async with service_with_models(tmp_path, *replies) as (service, _):
            job = await service.ended(await service.submit("chat", messages=QUESTION))
            assert job["status"] == "failed"
            response = await service.client.post(f"/api/jobs/{job['job_id']}/restart")
            assert response.is_success, response.text
            job = await service.ended(job["job_id"])
            assert job["results"]["text"] == "Yes"


async def last_event(receiver: Receiver) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while not any(one.json["phase"] == "completed" for one in receiver.received):
            await asyncio.sleep(0.05)
    event: dict[str, Any] = receiver.received[-1].json
    return event
