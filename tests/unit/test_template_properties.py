"""Whatever a template asks for: its schema is valid, and any matching value gives a document."""

import json
from typing import Any

import jsonschema_rs
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from secretary.core.errors import InvalidParameters, InvalidTemplate, UpstreamFailed
from secretary.llm.templates import Template, parse
from secretary.llm.templates.rendering import (
    fill_without_model,
    prompt_messages,
    render,
    validate_answer,
)
from secretary.llm.templates.template import Field, FieldType, Slot, schema

from ..strategies import ANY_TEXT, JSON, TEXT
from .test_template_documents import front_matter

INSTRUCTIONS = st.sampled_from(
    ["Text", "list: names", "list of {name, age: number}", "one of a | b | c", "number: how many",
     "integer: how many", "boolean: is it", "date: when", "date or null", "Array of tags",
     "list of one of x|y", "{a, b: list of {c: date}}", "one of a|b or null", "Zahl oder null"]
) | TEXT.filter(lambda text: "}" not in text and "{" not in text)  # fmt: skip
NAMES = st.sampled_from(["title", "tags", "a_b", "Größe", "x-y", "date"])


@st.composite
def templates(draw: st.DrawFn) -> Template:
    fields = draw(st.dictionaries(NAMES, INSTRUCTIONS, min_size=1, max_size=4))
    slots = [f"{{{{{name}|{field}}}}}" for name, field in fields.items()]
    head = draw(st.integers(0, len(slots)))
    entries = "\n".join(f"k{n}: {slot}" for n, slot in enumerate(slots[:head]))
    body = draw(
        st.sampled_from(["# {}", "{}", "- {}", "> {}", "| {} |\n|---|\n", "[a]({})", "x {} y"])
    )
    parts = "\n\n".join(body.format(slot) for slot in slots[head:])
    text = f"---\nfirst: {{{{given}}}}\n{entries}\nlast: 1\n---\n{parts}\n{{{{given}}}}\n"
    try:
        return parse(text)
    except InvalidTemplate:
        assume(False)
        raise


def answers(kind: FieldType) -> st.SearchStrategy[Any]:
    """A value that the schema allows."""
    if kind.is_list:
        return st.lists(single(kind), max_size=3)
    return single(kind) | st.none() if kind.nullable else single(kind)


def single(kind: FieldType) -> st.SearchStrategy[Any]:
    match kind.base:
        case "number":
            return st.integers() | st.floats(allow_nan=False, allow_infinity=False)
        case "integer":
            return st.integers()
        case "boolean":
            return st.booleans()
        case "choice":
            return st.sampled_from(kind.choices)
        case "object":
            return st.fixed_dictionaries({name: answers(part) for name, part in kind.properties})
        case _:
            return ANY_TEXT


def filled_by(fields: tuple[Field, ...]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({field.name: answers(field.field_type) for field in fields})


@given(templates(), st.data())
@settings(max_examples=70)
def test_what_keeps_to_the_schema_makes_a_document(template: Template, data: st.DataObject) -> None:
    asked = schema(template)
    jsonschema_rs.validator_for(asked)
    assert asked["required"] == list(asked["properties"])
    filled = data.draw(filled_by(template.fields))
    if is_writable(filled):
        assert jsonschema_rs.is_valid(asked, filled), "the schema allows it"
    assert validate_answer(template.fields, filled) == []
    given_value = data.draw(ANY_TEXT)
    document = render(template, {"given": given_value}, filled, "source")
    document.markdown.encode()
    fields = front_matter(document.markdown)
    # Whatever a value contains, it is only the value of its key.
    empty = {entry.key for entry in template.entries if is_null(entry.value, filled)}
    assert list(fields) == [entry.key for entry in template.entries if entry.key not in empty]
    assert fields["last"] == 1
    assert isinstance(fields["first"], str)
    json.dumps(document.structured_data, allow_nan=False)


@given(templates(), st.dictionaries(NAMES, JSON), st.dictionaries(TEXT, JSON, max_size=3))
@settings(max_examples=50)
def test_any_answer_makes_a_document_or_a_named_error(
    template: Template, filled: dict[str, Any], context: dict[str, Any]
) -> None:
    messages = prompt_messages(template, context, json.dumps(filled))
    assert all(json.dumps(message) for message in messages)
    try:
        document = render(template, context, filled, "")
    except (UpstreamFailed, InvalidParameters) as error:
        assert error.code in ("UPSTREAM_FAILED", "VALIDATION_ERROR")
    else:
        empty = {entry.key for entry in template.entries if is_null(entry.value, filled)}
        keys = [entry.key for entry in template.entries if entry.key not in empty]
        assert list(front_matter(document.markdown)) == keys
    assert validate_answer(template.fields, {}) != []
    unfilled = fill_without_model(template.fields, filled)
    assert set(unfilled) == {field.name for field in template.fields}


def is_null(value: Any, filled: dict[str, Any]) -> bool:
    return isinstance(value, Slot) and value.name in filled and filled[value.name] is None


def is_writable(value: Any) -> bool:
    """No model answer contains lone surrogates."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
