"""Answers with fields instead of prose, from endpoints of all kinds."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...errors import ContextExceeded, UpstreamFailed, UpstreamRefused
from .endpoints import Endpoints, Messages
from .json_text import Unfit, read_object
from .schema import STRICT, Form, Schema, closed
from .usage import Usage

#: With these a server may mean that it does not know a response format; the next one is tried.
UNKNOWN_FORMAT = frozenset({400, 404, 415, 422})

PROMPT = """\
Answer with one JSON object and nothing else: no introduction, no remarks, no fence around it. \
It must fit this JSON Schema, whose descriptions say what belongs into each field:

"""
REPAIR = """\
That answer cannot be used:
{faults}

Answer again with the whole JSON object, corrected, and nothing else."""


async def fill(
    endpoints: Endpoints, usage: Usage, messages: Sequence[Mapping[str, Any]], schema: Schema
) -> dict[str, Any]:
    """An object that fits the schema. One that does not is sent back once, with its faults."""
    form = Form(schema)
    asked = _with_schema(messages, schema)
    answer = await ask_json(endpoints, usage, asked, schema)
    try:
        return form.fitted(read_object(answer))
    except Unfit as unfit:
        faults = "\n".join(f"- {fault}" for fault in unfit.faults)
    asked += [
        {"role": "assistant", "content": answer},
        {"role": "user", "content": REPAIR.format(faults=faults)},
    ]
    answer = await ask_json(endpoints, usage, asked, schema)
    try:
        return form.fitted(read_object(answer))
    except Unfit as unfit:
        text = "The language model does not give an answer of the form that is needed"
        raise UpstreamFailed(f"{text}: {unfit.faults[0]}", faults=list(unfit.faults)) from None


def _with_schema(messages: Sequence[Mapping[str, Any]], schema: Schema) -> Messages:
    """Said in words too: not every endpoint shows the model the schema that it must follow."""
    prompt = PROMPT + json.dumps(schema, ensure_ascii=False)
    first, *others = [dict(message) for message in messages]
    if first["role"] == "system" and isinstance(first["content"], str):
        return [{**first, "content": f"{first['content']}\n\n{prompt}"}, *others]
    return [{"role": "system", "content": prompt}, first, *others]


async def ask_json(endpoints: Endpoints, usage: Usage, messages: Messages, schema: Schema) -> str:
    """An answer that is JSON, as well as the endpoint can make sure of it. What it refuses is
    not asked of it again."""
    model = endpoints.model("chat")
    refused: list[str] = []
    for name, parameters in _formats(schema):
        if endpoints.lacks(model, name):
            continue
        try:
            answer = await endpoints.chat("chat", messages, usage, **parameters)
        except ContextExceeded:
            raise
        except UpstreamRefused as error:
            if not parameters or error.details.get("status") not in UNKNOWN_FORMAT:
                raise
            refused.append(name)
            continue
        for lacking in refused:
            endpoints.learn_lack(model, lacking)
        return answer
    raise AssertionError("the last format asks for nothing, and is never refused")


def _formats(schema: Schema) -> Iterator[tuple[str, dict[str, Any]]]:
    """From the surest to the one that every endpoint knows."""
    whole, strict = closed(schema), closed(schema, STRICT)
    yield "json_schema", _response_format(whole)
    if strict != whole:
        yield "json_schema of few keywords", _response_format(strict)
    yield "json_object", {"response_format": {"type": "json_object"}}
    yield "text", {}


def _response_format(schema: Schema) -> dict[str, Any]:
    form = {"name": "answer", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": form}}
