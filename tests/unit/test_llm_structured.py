"""Structured output, from scripted endpoints of all kinds."""

import json
from typing import Any

import pytest

from secretary.core.errors import (
    ContextExceeded,
    EngineUnavailable,
    JobFailed,
    UpstreamFailed,
    UpstreamRefused,
)
from secretary.llm import Llm, Price
from secretary.llm.structured import (
    STRICT_KEYWORDS,
    InvalidAnswer,
    SchemaValidator,
    parse_object,
    strict_schema,
)

from ..llm_fixture import scripted_llm
from ..llm_server import KEY, Reply, fails, hangs, says

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1, "description": "A title of five words"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "year": {"type": "integer"},
    },
    "required": ["title", "tags"],
    "additionalProperties": False,
}
MESSAGES = [
    {"role": "system", "content": "You are a librarian."},
    {"role": "user", "content": "A book about apples"},
]
GOOD = {"title": "Apples", "tags": ["fruit"]}
FITS = says(json.dumps(GOOD))
UNKNOWN = fails("400 Bad Request", "This response_format type is unavailable now")


def kinds(requests: list[dict[str, Any]]) -> list[str | None]:
    return [request.get("response_format", {}).get("type") for request in requests]


async def failure_of(*replies: Reply, **options: Any) -> JobFailed:
    async with scripted_llm(*replies, **options) as (_, llm):
        with pytest.raises(JobFailed) as caught:
            await llm.fill(MESSAGES, SCHEMA)
        return caught.value


class TestFill:
    async def test_an_answer_that_fits_is_the_result(self) -> None:
        async with scripted_llm(FITS) as (server, llm):
            assert await llm.fill(MESSAGES, SCHEMA) == GOOD
        assert len(server.requests) == 1

    async def test_the_schema_is_sent_in_strict_form_and_in_words(self) -> None:
        async with scripted_llm(FITS) as (server, llm):
            await llm.fill(MESSAGES, SCHEMA)
        request = server.requests[0]
        form = request["response_format"]["json_schema"]
        assert (form["name"], form["strict"]) == ("answer", True)
        assert form["schema"]["required"] == ["title", "tags", "year"]
        system, user = request["messages"]
        assert system["content"].startswith("You are a librarian.\n\nAnswer with one JSON object")
        assert "A title of five words" in system["content"]
        assert user == MESSAGES[1]

    async def test_messages_without_a_system_prompt_get_one(self) -> None:
        async with scripted_llm(FITS) as (server, llm):
            await llm.fill(MESSAGES[1:], SCHEMA)
        assert [each["role"] for each in server.requests[0]["messages"]] == ["system", "user"]

    async def test_null_for_what_may_be_missing_is_missing(self) -> None:
        async with scripted_llm(says(json.dumps({**GOOD, "year": None}))) as (_, llm):
            assert await llm.fill(MESSAGES, SCHEMA) == GOOD

    async def test_what_is_no_schema_is_not_asked_for(self) -> None:
        async with scripted_llm(FITS) as (server, llm):
            for schema in ({"type": "nonsense"}, {"$ref": "http://127.0.0.1:9/schema.json"}):
                with pytest.raises(ValueError):
                    await llm.fill(MESSAGES, schema)
        assert server.requests == []

    async def test_tokens_and_their_cost_are_counted(self) -> None:
        async with scripted_llm(says("no"), FITS, price=Price(input=1, output=10)) as (_, llm):
            await llm.fill(MESSAGES, SCHEMA)
            info = llm.info()
        assert (info["total_tokens"], info["total_cost"]) == (240, 0.0006)
        assert {request["purpose"] for request in info["requests"]} == {"chat"}


class TestRepair:
    @pytest.mark.parametrize(
        ("answer", "fault"),
        [
            ("I would say: Apples.", "- it is not valid JSON"),
            ("[1]", "- it is not a JSON object"),
            ('{"title": "Apples"}', '- the object: "tags" is a required property'),
            ('{"title": "Apples", "tags": "fruit"}', "- tags: the value is not of type"),
            ('{"title": "", "tags": [7]}', "- tags.0: the value is not of type"),
            ('{"title": "a", "tags": [], "note": 1}', "- the object: Additional properties"),
            ('{"title": "a", "title": "b", "tags": []}', "- the field 'title' occurs more"),
            ('{"title": "\\ud800", "tags": []}', "- it is not valid JSON"),
            ('{"title": "a", "tags": [], "year": NaN}', "- it is not valid JSON"),
        ],
    )
    async def test_a_fault_is_named_to_the_model_once(self, answer: str, fault: str) -> None:
        async with scripted_llm(says(answer), FITS) as (server, llm):
            assert await llm.fill(MESSAGES, SCHEMA) == GOOD
        *_, wrong, repair = server.requests[1]["messages"]
        assert wrong == {"role": "assistant", "content": answer}
        assert repair["role"] == "user" and fault in repair["content"]

    async def test_all_faults_are_named(self) -> None:
        async with scripted_llm(says('{"title": 1, "year": "x"}'), FITS) as (server, llm):
            await llm.fill(MESSAGES, SCHEMA)
        assert server.requests[1]["messages"][-1]["content"].count("\n- ") == 3

    async def test_the_second_fault_fails_the_job(self) -> None:
        error = await failure_of(says('{"title": "A made-up secret"}'))
        assert type(error) is UpstreamFailed and error.retryable
        assert error.message.endswith('match the schema: the object: "tags" is a required property')
        assert error.details == {"faults": ['the object: "tags" is a required property']}

    async def test_what_the_model_made_up_is_not_in_the_message(self) -> None:
        error = await failure_of(says('{"title": "a", "tags": "made up"}'))
        assert "tags: the value is not" in error.message and "made up" not in error.message


class TestEndpointsThatKnowLess:
    async def test_no_schemas_but_json(self) -> None:
        async with scripted_llm(UNKNOWN, UNKNOWN, FITS) as (server, llm):
            assert await llm.fill(MESSAGES, SCHEMA) == GOOD
            assert await llm.fill(MESSAGES, SCHEMA) == GOOD
        assert kinds(server.requests) == ["json_schema"] * 2 + ["json_object"] * 2

    async def test_only_the_keywords_of_openai(self) -> None:
        async with scripted_llm(UNKNOWN, FITS) as (server, llm):
            await llm.fill(MESSAGES, SCHEMA)
        wide, narrow = (each["response_format"]["json_schema"] for each in server.requests)
        assert "minLength" in wide["schema"]["properties"]["title"]
        assert "minLength" not in narrow["schema"]["properties"]["title"]

    async def test_nothing_but_text(self) -> None:
        reply = says("Here you are:\n```json\n" + json.dumps(GOOD) + "\n```\nEnjoy {it}!")
        refused = fails("422 Unprocessable Entity", "unknown field response_format")
        async with scripted_llm(refused, refused, refused, reply) as (server, llm):
            assert await llm.fill(MESSAGES, SCHEMA) == GOOD
            assert await llm.fill(MESSAGES, SCHEMA) == GOOD
        assert kinds(server.requests) == ["json_schema", "json_schema", "json_object", None, None]

    async def test_what_is_refused_in_every_form_is_not_learned(self) -> None:
        bad = fails("400 Bad Request", "No such model")
        async with scripted_llm(bad, bad, bad, bad, FITS) as (server, llm):
            with pytest.raises(UpstreamRefused, match="No such model"):
                await llm.fill(MESSAGES, SCHEMA)
            assert await llm.fill(MESSAGES, SCHEMA) == GOOD
        assert kinds(server.requests)[-1] == "json_schema"


class TestFailures:
    async def test_without_a_model_it_says_what_to_set(self) -> None:
        with pytest.raises(EngineUnavailable, match=r"llm\.model or llm\.chat_model"):
            await Llm().fill(MESSAGES, SCHEMA)

    async def test_a_refusal_is_not_asked_again(self) -> None:
        async with scripted_llm(says(None, refusal="I am sorry.")) as (server, llm):
            with pytest.raises(UpstreamRefused, match="refuses to answer"):
                await llm.fill(MESSAGES, SCHEMA)
        assert len(server.requests) == 1

    async def test_a_truncated_answer_is_never_repaired(self) -> None:
        error = await failure_of(says('{"title": "App', finish_reason="length"))
        assert isinstance(error, ContextExceeded) and "cut off" in error.message

    @pytest.mark.parametrize(
        "message",
        [
            "This model's maximum context length is 4096 tokens. However, you requested 5000",
            "request (6031 tokens) exceeds the available context size (1024 tokens)",
            "prompt is too long: 200001 tokens > 199999 maximum",
            "The input token count (40000) exceeds the maximum number of tokens allowed",
        ],
    )
    async def test_a_text_that_is_too_long_has_an_error_of_its_own(self, message: str) -> None:
        async with scripted_llm(fails("400 Bad Request", message)) as (server, llm):
            with pytest.raises(ContextExceeded) as caught:
                await llm.fill(MESSAGES, SCHEMA)
        assert caught.value.message.startswith("The text is too long for the language model: ")
        assert not caught.value.retryable
        assert len(server.requests) == 1

    async def test_a_busy_endpoint_is_not_taken_for_a_long_text(self) -> None:
        message = "Too many tokens per minute"
        error = await failure_of(fails("429 Too Many", message, Retry_After="600"))
        assert type(error) is UpstreamFailed and error.retry_after is not None

    async def test_others_are_those_of_every_request(self) -> None:
        error = await failure_of(fails("401 Unauthorized", KEY))
        assert isinstance(error, EngineUnavailable) and KEY not in error.message
        error = await failure_of(hangs, timeout_sec=0.3)
        assert "did not answer" in error.message


class TestComplete:
    async def test_the_answer_is_what_the_model_says(self) -> None:
        async with scripted_llm(says(" Hello "), parameters={"temperature": 0}) as (server, llm):
            assert await llm.complete(MESSAGES, temperature=1, max_tokens=9) == "Hello"
        request = server.requests[0]
        assert request["messages"] == MESSAGES
        assert (request["temperature"], request["max_tokens"]) == (0, 9)
        assert "response_format" not in request


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ('Sure!\n```json\n{"a": 1}\n```', {"a": 1}),
        ('{"a": 1} and {"b": [1, 2]}', {"b": [1, 2]}),
        ('Set {x} is: {"a": "}"} {', {"a": "}"}),
    ],
)
def test_an_object_is_found_among_words(text: str, expected: object) -> None:
    assert parse_object(text) == expected


@pytest.mark.parametrize(
    "text", ["", "{", "null", "{a: 1}", '{"a": 1e999}', '{"a":' * 5000, "{" * 100_000]
)
def test_what_is_no_object_is_unfit(text: str) -> None:
    with pytest.raises(InvalidAnswer):
        parse_object(text)


class TestSchemas:
    def test_all_fields_are_needed_and_others_forbidden_at_every_depth(self) -> None:
        person = {"type": "object", "properties": {"name": {"type": "string"}}}
        schema = {
            "type": "object",
            "properties": {
                "people": {"type": "array", "items": person},
                "properties": {"type": ["string", "null"], "maxLength": 3},
            },
            "required": ["people"],
        }
        name = {"anyOf": [{"type": "string"}, {"type": "null"}]}
        strict_person = {
            "type": "object",
            "properties": {"name": name},
            "required": ["name"],
            "additionalProperties": False,
        }
        assert strict_schema(schema, STRICT_KEYWORDS) == {
            "type": "object",
            "properties": {
                "people": {"type": "array", "items": strict_person},
                "properties": {"type": ["string", "null"]},
            },
            "required": ["people", "properties"],
            "additionalProperties": False,
        }
        answer = {"people": [{"name": None}], "properties": None}
        fields = SchemaValidator(schema).validate(answer)
        assert fields == {"people": [{}], "properties": None}
        assert "additionalProperties" not in schema

    def test_what_is_described_elsewhere_may_be_missing_too(self) -> None:
        tree: dict[str, Any] = {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "note": {"type": "string"},
                "parts": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            },
            "required": ["name"],
        }
        schema = {
            "type": "object",
            "properties": {"tree": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/tree"}]}},
            "required": ["tree"],
            "$defs": {"tree": tree},
        }
        leaf = {"name": "b", "note": None, "parts": None}
        answer = {"tree": {"name": "a", "note": None, "parts": [leaf]}}
        assert SchemaValidator(schema).validate(answer) == {
            "tree": {"name": "a", "parts": [{"name": "b"}]}
        }

    def test_references_in_circles_end(self) -> None:
        again = {"$ref": "#/$defs/a"}
        circle = {"$defs": {"a": {"anyOf": [again, again]}}, "properties": {"x": again}}
        assert SchemaValidator(circle).validate({"x": None}) == {}

    def test_objects_with_fields_of_any_name_stay_open(self) -> None:
        schema = {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}
        assert strict_schema(schema) == schema
