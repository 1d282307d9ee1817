"""Answers as JSON objects that match a schema, from endpoints of all kinds."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..core.errors import ContextExceeded, UpstreamFailed, UpstreamRefused
from .endpoints import CountedEndpoints, Messages, Purpose

Schema = Mapping[str, Any]

#: Statuses by which a server may reject a response format; then the next one is tried.
REJECTS_FORMAT = frozenset({400, 404, 415, 422})

PROMPT = """\
Answer with one JSON object and nothing else: no introduction, no remarks, no fence around it. \
It must fit this JSON Schema, whose descriptions say what belongs into each field:

"""
REPAIR = """\
That answer cannot be used:
{faults}

Answer again with the whole JSON object, corrected, and nothing else."""


async def fill(
    llm: CountedEndpoints,
    messages: Sequence[Mapping[str, Any]],
    schema: Schema,
    *,
    purpose: Purpose = "chat",
) -> dict[str, Any]:
    """Have the model answer with an object that matches the JSON Schema. One that does not is sent
    back once, with its errors."""
    validator = SchemaValidator(schema)
    request = with_schema(messages, schema)
    problems: list[str] = []
    for _ in range(2):
        answer = await ask_json(llm, request, schema, purpose)
        try:
            return validator.validate(parse_object(answer))
        except InvalidAnswer as error:
            problems = list(error.args)
        request += _repair_messages(answer, problems)
    text = "The answer of the language model does not match the schema"
    raise UpstreamFailed(f"{text}: {problems[0]}", faults=problems)


@dataclass(frozen=True, slots=True)
class ObjectAnswer:
    """An answer as JSON, and how it differs from its schema."""

    fields: dict[str, Any]
    problems: list[str]


async def ask_for_object(
    llm: CountedEndpoints,
    messages: Sequence[Mapping[str, Any]],
    schema: Schema,
    *,
    optional: Mapping[str, Any],
) -> ObjectAnswer:
    """Have the chat model answer with an object. One that does not match the schema is sent back
    once; the better of the two answers is returned. `optional` parameters are left out if the
    model rejects them."""
    validator = SchemaValidator(schema)
    request = with_schema(messages, schema)
    best: ObjectAnswer | None = None
    faults: list[str] = []
    for _ in range(2):
        try:
            answer = await _ask_in_json_mode(llm, request, optional)
        except UpstreamFailed:
            if best is not None:  # the attempt to repair it failed
                return best
            raise
        try:
            fields = parse_object(answer)
            return ObjectAnswer(validator.validate(fields), [])
        except NotAnObject as error:
            faults = list(error.args)
        except InvalidAnswer as error:
            faults = list(error.args)
            if best is None or len(faults) < len(best.problems):
                best = ObjectAnswer(fields, faults)
        request += _repair_messages(answer, faults)
    if best is None:
        text = "The answer of the language model is not a JSON object"
        raise UpstreamFailed(f"{text}: {faults[0]}", faults=faults)
    return best


async def _ask_in_json_mode(
    llm: CountedEndpoints, messages: Messages, optional: Mapping[str, Any]
) -> str:
    model, mode = llm.options.model("chat"), "json_object"
    if llm.endpoints.lacks(model, mode):
        return await llm.chat("chat", messages, optional=optional)
    try:
        parameters = {"response_format": {"type": mode}}
        return await llm.chat("chat", messages, optional=optional, **parameters)
    except UpstreamRefused as error:
        if isinstance(error, ContextExceeded) or error.details.get("status") not in REJECTS_FORMAT:
            raise
        answer = await llm.chat("chat", messages, optional=optional)
        llm.endpoints.mark_unsupported(model, mode)  # it was the format
        return answer


def with_schema(messages: Sequence[Mapping[str, Any]], schema: Schema) -> Messages:
    """The messages with the schema in their system prompt: not every endpoint shows the schema of
    the response format to the model."""
    prompt = PROMPT + json.dumps(schema, ensure_ascii=False)
    request = [dict(message) for message in messages]
    if request[0]["role"] == "system" and isinstance(request[0]["content"], str):
        request[0]["content"] += f"\n\n{prompt}"
    else:
        request.insert(0, {"role": "system", "content": prompt})
    return request


def _repair_messages(answer: str, problems: Sequence[str]) -> Messages:
    faults = "\n".join(f"- {problem}" for problem in problems)
    return [
        {"role": "assistant", "content": answer},
        {"role": "user", "content": REPAIR.format(faults=faults)},
    ]


async def ask_json(
    llm: CountedEndpoints, messages: Messages, schema: Schema, purpose: Purpose = "chat"
) -> str:
    """An answer in the strictest format that the endpoint supports. Rejected formats are not
    requested again."""
    endpoints = llm.endpoints
    model = llm.options.model(purpose)
    complete, strict = strict_schema(schema), strict_schema(schema, STRICT_KEYWORDS)
    formats = {"json_schema": _response_format(complete)}
    if strict != complete:
        formats["json_schema of few keywords"] = _response_format(strict)
    formats |= {"json_object": {"response_format": {"type": "json_object"}}, "text": {}}
    rejected: list[str] = []
    for name, parameters in formats.items():
        if endpoints.lacks(model, name):
            continue
        try:
            answer = await llm.chat(purpose, messages, **parameters)
        except UpstreamRefused as error:
            is_rejected = parameters and error.details.get("status") in REJECTS_FORMAT
            if not is_rejected or isinstance(error, ContextExceeded):
                raise
            rejected.append(name)
            continue
        for format_name in rejected:
            endpoints.mark_unsupported(model, format_name)
        return answer
    raise AssertionError("the last format has no parameters and cannot be rejected")


def _response_format(schema: Schema) -> dict[str, Any]:
    form = {"name": "answer", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


#: Keywords of OpenAI's strict mode; other endpoints support more.
STRICT_KEYWORDS = frozenset({
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
    "$ref", "$defs", "definitions", "description", "title", "pattern", "format", "minimum",
    "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems",
})  # fmt: skip
LISTS = ("anyOf", "allOf", "oneOf")
MAX_PROBLEMS = 20
MAX_PROBLEM_LENGTH = 200


def strict_schema(schema: Schema, keywords: frozenset[str] | None = None) -> dict[str, Any]:
    """The schema as strict modes require it: all fields of an object are required and there are no
    others; optional ones may be null. With `keywords`, all other keywords are removed."""

    def part(inner: Any) -> Any:
        return strict_schema(inner, keywords) if isinstance(inner, Mapping) else inner

    node = {key: value for key, value in schema.items() if keywords is None or key in keywords}
    for key in ("properties", "$defs", "definitions"):
        if key in node:
            node[key] = {name: part(inner) for name, inner in node[key].items()}
    for key in LISTS:
        if key in node:
            node[key] = [part(inner) for inner in node[key]]
    if "items" in node:
        node["items"] = part(node["items"])
    if "properties" in node and not node.get("additionalProperties"):
        needed = set(node.get("required", ()))
        node["properties"] = {
            name: inner
            if name in needed or _may_be_null(inner)
            else {"anyOf": [inner, {"type": "null"}]}
            for name, inner in node["properties"].items()
        }
        node["required"] = list(node["properties"])
        node["additionalProperties"] = False
    return node


def _may_be_null(part: Any) -> bool:
    if not isinstance(part, Mapping):
        return False
    kinds = part.get("type")
    return kinds == "null" or (isinstance(kinds, list) and "null" in kinds)


def without_nulls(value: Any, schema: Any, root: Schema, seen: frozenset[int] = frozenset()) -> Any:
    """Remove fields that are null only because `strict_schema` allows it."""
    if not isinstance(schema, Mapping) or id(schema) in seen:  # references may be circular
        return value
    seen |= {id(schema)}
    parts = [part for key in LISTS for part in schema.get(key, ())]
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target: Any = root
        for name in reference[2:].split("/"):
            target = target.get(name) if isinstance(target, Mapping) else None
        parts.insert(0, target)
    for part in parts:
        value = without_nulls(value, part, root, seen)
    if isinstance(value, list):
        return [without_nulls(each, schema.get("items"), root) for each in value]
    if not isinstance(value, dict):
        return value
    properties, needed = schema.get("properties", {}), schema.get("required", ())
    return {
        name: without_nulls(each, properties.get(name), root)
        for name, each in value.items()
        if each is not None
        or name not in properties
        or name in needed
        or _may_be_null(properties[name])
    }


def check_schema(schema: Schema) -> None:
    """Raise `ValueError` for an invalid schema."""
    SchemaValidator(schema)


class SchemaValidator:
    """Validates answers. Raises `ValueError` for an invalid schema, before any request."""

    def __init__(self, schema: Schema) -> None:
        import jsonschema_rs  # needed by few jobs

        self.schema = schema
        # Offline: external references must not be fetched. Masked: values that a model made up
        # must not appear in messages.
        self._validator = jsonschema_rs.validator_for(dict(schema), offline=True, mask="the value")

    def validate(self, answer: dict[str, Any]) -> dict[str, Any]:
        try:
            fields: dict[str, Any] = without_nulls(answer, self.schema, self.schema)
        except RecursionError:
            raise InvalidAnswer("it is nested too deeply") from None
        problems = []
        for error in islice(self._validator.iter_errors(fields), MAX_PROBLEMS):
            path = ".".join(str(part) for part in error.instance_path)
            problems.append(f"{path or 'the object'}: {error.message}"[:MAX_PROBLEM_LENGTH])
        if problems:
            raise InvalidAnswer(*problems)
        return fields


FENCED = re.compile(r"```[ \t]*\w*[ \t]*\n(.*?)```", re.DOTALL)
#: How many `{` are tried as the beginning of the object.
MAX_BEGINNINGS = 100


class InvalidAnswer(Exception):
    """The answer cannot be used. The arguments are its problems, as sentences for the model."""


class NotAnObject(InvalidAnswer):
    """The answer contains no JSON object at all."""


def parse_object(text: str) -> dict[str, Any]:
    """The JSON object in the text: all of it, in a code fence, or else the longest one."""
    for candidate in (text, *FENCED.findall(text)):
        try:
            value = DECODER.decode(candidate.strip())
            _check_encodable(value)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
        raise NotAnObject("it is not a JSON object")
    longest: dict[str, Any] | None = None
    size = position = 0
    for _ in range(MAX_BEGINNINGS):
        begin = text.find("{", position)
        if begin < 0:
            break
        try:
            value, position = DECODER.raw_decode(text, begin)
            _check_encodable(value)
        except (ValueError, RecursionError):
            position = max(begin, position) + 1
            continue
        if position - begin > size:
            longest, size = value, position - begin
    if longest is None:
        raise NotAnObject("it is not valid JSON")
    return longest


def _check_encodable(value: Any) -> None:
    """Lone surrogates and infinite numbers could not be encoded again."""
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise NotAnObject(f"the field {duplicate[:100]!r} occurs more than once")
    return fields


#: `int` raises ValueError for NaN and Infinity, which are not JSON.
DECODER = json.JSONDecoder(object_pairs_hook=_unique_fields, parse_constant=int)
