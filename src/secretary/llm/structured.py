"""Answers with fields instead of prose, from endpoints of all kinds."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from ..core.errors import ContextExceeded, UpstreamFailed, UpstreamRefused
from .endpoints import Endpoints, Messages
from .options import Usage

FENCED = re.compile(r"```[ \t]*\w*[ \t]*\n(.*?)```", re.DOTALL)
#: So many places are tried where an object might begin; nobody means more than one.
BEGINNINGS = 100


class Unfit(Exception):
    """The answer is not what was asked for. The faults are sentences for the model."""

    def __init__(self, *faults: str) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


def read_object(text: str) -> dict[str, Any]:
    """The object that is all of the text, in a fence or among words; of several the longest."""
    for candidate in (text, *FENCED.findall(text)):
        try:
            value = _loads(candidate.strip())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
        raise Unfit("it is not a JSON object")
    return _longest(text)


def _loads(text: str) -> Any:
    value = DECODER.decode(text)
    _check(value)
    return value


def _longest(text: str) -> dict[str, Any]:
    found: dict[str, Any] | None = None
    size = position = 0
    for _ in range(BEGINNINGS):
        begin = text.find("{", position)
        if begin < 0:
            break
        try:
            value, position = DECODER.raw_decode(text, begin)
            _check(value)
        except (ValueError, RecursionError):
            position = max(begin, position) + 1
            continue
        if position - begin > size:
            found, size = value, position - begin
    if found is None:
        raise Unfit("it is not valid JSON")
    return found


def _check(value: Any) -> None:
    """Halves of characters and endless numbers could not be written down again."""
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Unfit(f"the field {twice[:100]!r} is there more than once")
    return fields


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_refuse)


Schema = Mapping[str, Any]

#: What OpenAI's strict mode understands; others know more.
STRICT = frozenset({
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
    "$ref", "$defs", "definitions", "description", "title", "pattern", "format", "minimum",
    "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems",
})  # fmt: skip
MAPS = ("properties", "$defs", "definitions")
LISTS = ("anyOf", "allOf", "oneOf")
FAULTS = 20
LONGEST_FAULT = 200


def closed(schema: Schema, keywords: frozenset[str] | None = None) -> dict[str, Any]:
    """As strict modes want it: objects have all their fields and no others; those that may be
    missing may be null instead. With `keywords` all others are left out."""
    node = {key: value for key, value in schema.items() if keywords is None or key in keywords}
    for key in MAPS:
        if key in node:
            node[key] = {name: _part(part, keywords) for name, part in node[key].items()}
    for key in LISTS:
        if key in node:
            node[key] = [_part(part, keywords) for part in node[key]]
    if "items" in node:
        node["items"] = _part(node["items"], keywords)
    if "properties" in node and not node.get("additionalProperties"):
        needed = set(node.get("required", ()))
        node["properties"] = {
            name: part if name in needed else _or_null(part)
            for name, part in node["properties"].items()
        }
        node["required"] = list(node["properties"])
        node["additionalProperties"] = False
    return node


def _part(part: Any, keywords: frozenset[str] | None) -> Any:
    return closed(part, keywords) if isinstance(part, Mapping) else part


def _or_null(part: Any) -> Any:
    return part if _may_be_null(part) else {"anyOf": [part, {"type": "null"}]}


def _may_be_null(part: Any) -> bool:
    if not isinstance(part, Mapping):
        return False
    kinds = part.get("type")
    return kinds == "null" or (isinstance(kinds, list) and "null" in kinds)


def without_nulls(value: Any, schema: Any, root: Schema, seen: frozenset[int] = frozenset()) -> Any:
    """Fields that are null only because `closed` let them be are missing again."""
    if not isinstance(schema, Mapping) or id(schema) in seen:  # references may go in circles
        return value
    seen |= {id(schema)}
    for part in (_referred(schema, root), *(part for key in LISTS for part in schema.get(key, ()))):
        value = without_nulls(value, part, root, seen)
    if isinstance(value, list):
        return [without_nulls(each, schema.get("items"), root) for each in value]
    if not isinstance(value, dict):
        return value
    parts, needed = schema.get("properties", {}), schema.get("required", ())
    return {
        name: without_nulls(each, parts.get(name), root)
        for name, each in value.items()
        if each is not None or name not in parts or name in needed or _may_be_null(parts[name])
    }


def _referred(schema: Schema, root: Schema) -> Any:
    """What `$ref` points to inside the same schema."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    part: Any = root
    for name in reference[2:].split("/"):
        part = part.get(name) if isinstance(part, Mapping) else None
    return part


class Form:
    """Tells whether answers fit a schema. ValueError for what is no schema, before any request."""

    def __init__(self, schema: Schema) -> None:
        import jsonschema_rs  # a few who ask need it

        self.schema = schema
        # Offline: a reference to elsewhere must not be followed. Masked: what a model made up
        # has no place in messages.
        self._validator = jsonschema_rs.validator_for(dict(schema), offline=True, mask="the value")

    def fitted(self, answer: dict[str, Any]) -> dict[str, Any]:
        try:
            fields: dict[str, Any] = without_nulls(answer, self.schema, self.schema)
        except RecursionError:
            raise Unfit("it is nested too deep") from None
        faults = []
        for error in self._validator.iter_errors(fields):
            place = ".".join(str(part) for part in error.instance_path)
            faults.append(f"{place or 'the object'}: {error.message}"[:LONGEST_FAULT])
            if len(faults) == FAULTS:
                break
        if faults:
            raise Unfit(*faults)
        return fields


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
