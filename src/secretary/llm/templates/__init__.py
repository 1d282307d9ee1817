"""Templates: Markdown files that define a document. `schema` and `prompt_messages` are for a model,
`render` makes the document from its answer."""

from .library import Library, read
from .parsing import parse
from .rendering import Rendered, fill_without_model, prompt_messages, render, validate_answer
from .template import Field, FieldType, Template, schema

__all__ = [
    "Field",
    "FieldType",
    "Library",
    "Rendered",
    "Template",
    "fill_without_model",
    "parse",
    "prompt_messages",
    "read",
    "render",
    "schema",
    "validate_answer",
]
