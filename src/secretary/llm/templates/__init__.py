"""Templates: Markdown files that say what a document is to be. They know no jobs and no models:
`schema` and `messages` are for a model, `render` makes the document of its answer."""

from .library import Library, read
from .parsing import parse
from .rendering import Rendered, render
from .template import Field, Kind, Template, schema
from .values import faults_of, messages, without_model

__all__ = [
    "Field",
    "Kind",
    "Library",
    "Rendered",
    "Template",
    "faults_of",
    "messages",
    "parse",
    "read",
    "render",
    "schema",
    "without_model",
]
