"""The JSON Schema that a model's answer must keep to, with the few words all endpoints know."""

from typing import Any

from .template import Field, Kind, Template

TYPES = {"text": "string", "date": "string", "choice": "string"}
FORM = {"date": "YYYY-MM-DD"}

Schema = dict[str, Any]


def schema(template: Template) -> Schema:
    """Strict: every field is required, and there are no others."""
    return _object({field.name: _described(field) for field in template.fields})


def _described(field: Field) -> Schema:
    told = field.instruction
    if form := FORM.get(field.kind.sort):
        told = f"{told} ({form})"
    return {**_of(field.kind), "description": told}


def _of(kind: Kind) -> Schema:
    if kind.is_list:
        return {"type": "array", "items": _single(kind)}
    single = _single(kind)
    return {**single, "type": [single["type"], "null"]} if kind.nullable else single


def _single(kind: Kind) -> Schema:
    if kind.sort == "object":
        return _object({name: _of(part) for name, part in kind.parts})
    found: Schema = {"type": TYPES.get(kind.sort, kind.sort)}
    return {**found, "enum": list(kind.choices)} if kind.choices else found


def _object(properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
