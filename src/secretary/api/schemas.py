"""The words that the API's own description is made of: JSON Schemas that recur in it."""

from typing import Any

Schema = dict[str, Any]

#: Where the schemas are that have a name.
NAMED = "#/components/schemas/{model}"

TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT}
MAYBE_TEXT: Schema = {"type": ["string", "null"]}
NUMBER: Schema = {"type": "number"}
MAYBE_NUMBER: Schema = {"type": ["number", "null"]}
COUNT: Schema = {"type": "integer", "minimum": 0}
TRUTH: Schema = {"type": "boolean"}
NULL: Schema = {"type": "null"}
ANYTHING: Schema = {"type": "object"}
MOMENT: Schema = {"type": "string", "format": "date-time", "pattern": "Z$"}
ADDRESS: Schema = {"type": "string", "format": "uri", "pattern": "^https?://"}
FILE: Schema = {"type": "string", "format": "binary"}


def ref(name: str) -> Schema:
    return {"$ref": NAMED.format(model=name)}


def list_of(name: str) -> Schema:
    return {"type": "array", "items": ref(name)}


def object_of(**properties: Schema) -> Schema:
    """All of them are there."""
    return {"type": "object", "required": list(properties), "properties": properties}


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, NULL]}
