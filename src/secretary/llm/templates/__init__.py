"""Templates: Markdown files that define a document. `schema` and `prompt_messages` are for a model,
`render` makes the document from its answer."""

from .library import Library, read
from .parsing import parse, with_fields
from .rendering import Rendered
from .template import Template

__all__ = ["Library", "Rendered", "Template", "parse", "read", "with_fields"]
