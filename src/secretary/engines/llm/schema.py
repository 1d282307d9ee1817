"""JSON Schemas: as endpoints want them, and whether an answer fits."""

from collections.abc import Mapping
from typing import Any

from .json_text import Unfit

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
