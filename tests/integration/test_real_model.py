"""With a real language model, small and not clever: only the form of its answers is checked."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from secretary.core.errors import ContextExceeded
from secretary.llm import Endpoints, Llm

from ..model_server import ModelServer

MESSAGES = [
    {"role": "system", "content": "You describe books for a library."},
    {"role": "user", "content": "A cookbook about apples, by Ann Miller, printed in 1987."},
]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1, "maxLength": 40},
        "tags": {
            "type": "array",
            "items": {"type": "string", "maxLength": 15},
            "minItems": 1,
            "maxItems": 3,
        },
        "year": {"type": "integer", "minimum": 1900, "maximum": 2100},
        "kind": {"enum": ["book", "film"]},
    },
    "required": ["title", "tags", "year", "kind"],
    "additionalProperties": False,
}


@pytest.fixture
async def llm(model_server: ModelServer) -> AsyncIterator[Llm]:
    endpoints = Endpoints(model_server.options())
    yield Llm(endpoints)
    await endpoints.close()


async def test_it_answers_and_reports_its_tokens(llm: Llm) -> None:
    question = {"role": "user", "content": "What is the capital of France?"}
    assert await llm.complete([question], stop=[".", ",", "\n"])
    (request,) = llm.info()["requests"]
    assert (request["model"], request["purpose"]) == ("smollm2", "chat")
    assert request["input_tokens"] > 5 and request["output_tokens"] > 0


async def test_it_fills_a_form_at_the_first_try(llm: Llm) -> None:
    filled = await llm.fill(MESSAGES, SCHEMA)
    assert set(filled) == {"title", "tags", "year", "kind"}
    assert 0 < len(filled["title"]) <= 40
    assert 1 <= len(filled["tags"]) <= 3 and all(isinstance(tag, str) for tag in filled["tags"])
    assert 1900 <= filled["year"] <= 2100
    assert filled["kind"] in ("book", "film")
    assert len(llm.info()["requests"]) == 1


async def test_what_may_be_missing_may_be_missing(llm: Llm) -> None:
    schema = {**SCHEMA, "required": ["title"]}
    filled = await llm.fill(MESSAGES, schema)
    assert filled["title"] and None not in filled.values()


async def test_each_text_has_its_translation(llm: Llm) -> None:
    texts = ["Good morning.", "", "The house is green."]
    translated = await llm.translate(texts, source="en", target="fr")
    assert [bool(text) for text in translated] == [True, False, True]


async def test_a_text_beyond_the_context_window_is_reported_as_such(llm: Llm) -> None:
    with pytest.raises(ContextExceeded, match="too long for the language model"):
        await llm.complete([{"role": "user", "content": "apple " * 6000}])


async def test_an_answer_that_never_ends_is_reported_as_such(model_server: ModelServer) -> None:
    endpoints = Endpoints(model_server.options(max_tokens=3))
    with pytest.raises(ContextExceeded, match="cut off"):
        await Llm(endpoints).complete([{"role": "user", "content": "Tell me a long story."}])
    await endpoints.close()
