"""What a document made with a template looks like, whatever the values are."""

import json
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from secretary.core.errors import InvalidParameters, InvalidTemplate, UpstreamFailed
from secretary.llm.templates import Rendered, parse
from secretary.llm.templates.rendering import fill_without_model, render, validate_answer
from tests.client_front_matter import client_front_matter
from tests.unit.test_templates import PARTS


def made(template: str, context: Any = None, text: str = "", **filled: Any) -> Rendered:
    return render(parse(template), context or {}, filled, text)


def body(template: str, context: Any = None, text: str = "", **filled: Any) -> str:
    return made(template, context, text, **filled).markdown


def front_matter(document: str) -> Any:
    """As other programs find it: between the first two `---` lines."""
    first, *lines = document.split("\n")
    assert first == "---"
    return yaml.safe_load("\n".join(lines[: lines.index("---")]) + "\n")


ANY_TEXT = st.text() | st.lists(PARTS, max_size=20).map("".join) | st.sampled_from(
    ["yes", "No", "null", "~", "1", "1.0", "1e3", "0x1f", "0o17", "1_000", "2026-01-31", "10:30",
     "12:30:45", "- a", "a: b", "a #b", "'", '"', "\\", "a\nb", "\n", " a", "a ", "---", "...",
     "a\n---\nb: 1", "{{title}}", "{a}", "[a]", "!a", "&a", "*a", "%a", "@a", "`a", "|", ">", "=",
     "<<", ".inf", ".nan", "é: ü", "\U0001f600", "\x85", "\u2028", "\ufeff", "\x7f", "\t", "a\t\nb",
     "a\n\n", "a\n b\n", " \na", "a\n \nb", "a\r\nb", "true", "?", "? a", "-", ":", "#", "a:"]
)  # fmt: skip
SCALARS = (
    ANY_TEXT
    | st.booleans()
    | st.none()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)


def whole(value: Any) -> Any:
    """Lone surrogates cannot be written."""
    if isinstance(value, str):
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in value)
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, dict):
        return {whole(key): whole(item) for key, item in value.items()}
    return value


class TestFrontMatter:
    TEMPLATE = """---
# What it is
titel: {{title|Title}}
tags: {{tags|Array of tags}}
event: {{event}}
kind: talk
---
{{summary|Summary}}
"""

    def test_constants_and_renamed_keys_survive_and_lists_stay_lists(self) -> None:
        document = made(self.TEMPLATE, {"event": "FOSDEM"}, title="T", tags=["a", "b"], summary="S")
        expected = {"titel": "T", "tags": ["a", "b"], "event": "FOSDEM", "kind": "talk"}
        assert front_matter(document.markdown) == document.front_matter == expected
        assert list(document.front_matter) == ["titel", "tags", "event", "kind"]
        assert document.structured_data == {"title": "T", "tags": ["a", "b"], "summary": "S"}
        assert document.markdown.endswith("---\n\nS\n")

    @pytest.mark.parametrize(
        ("line", "written"),
        [
            ("a: {{a|A}}", 'a: "2026: \\"x\\""'),
            ('a: "{{a|A}}"', 'a: "2026: \\"x\\""'),
            ("a: '{{a|A}}'", 'a: "2026: \\"x\\""'),
            ("a: >\n  {{a|A}}", 'a: "2026: \\"x\\""'),
            ("a: by {{a|A}}", 'a: "by 2026: \\"x\\""'),
            ("a: [{{a|A}}, b]", 'a: ["2026: \\"x\\"", "b"]'),
            ("a:\n  b:\n    - {{a|A}}", 'a: {"b": ["2026: \\"x\\""]}'),
        ],
    )
    def test_nothing_is_quoted_twice(self, line: str, written: str) -> None:
        document = body(f"---\n{line}\n---\n", a='2026: "x"')
        assert document == f"---\n{written}\n---\n"

    def test_constants_are_kept_as_they_are_written(self) -> None:
        constants = 'day: 2026-01-31\nat: 10:30\nno: yes\nn: 1.10\nx: [{"b": "c"}]\ny:'
        document = made(f"---\n{constants}\n# not this\nz: {{{{a|A}}}}\n---\n", a="b")
        assert document.markdown == f"---\n{constants}\nz: b\n---\n"
        assert document.front_matter == {
            "day": "2026-01-31", "at": "10:30", "no": "yes", "n": 1.1, "x": [{"b": "c"}],
            "y": None, "z": "b",
        }  # fmt: skip

    def test_constants_that_take_several_lines_or_are_no_json_are_written_anew(self) -> None:
        constants = "a:\n  - b\n  - c\nd: [e, f]\ng: 'h'  # a remark\ni: null\nj: |\n  k\n  l"
        assert body(f"---\n{constants}\n---\n") == (
            '---\na: ["b", "c"]\nd: ["e", "f"]\ng: h\ni:\nj: "k\\nl\\n"\n---\n'
        )

    def test_the_block_of_the_client_application_is_left_out(self) -> None:
        document = made(
            "---\na: {{a|A}}\ncreation:\n  supportedSources:\n    - id: b\n---\n", a="b"
        )
        assert document.markdown == "---\na: b\n---\n"

    def test_constants_that_a_reader_would_stumble_over_get_quotes(self) -> None:
        document = body("---\na: =\n<<: 1\nb: 2026-02-30\nc: |\n  d\n  # e\n# f\n---\n")
        assert document == '---\na: "="\n"<<": 1\nb: "2026-02-30"\nc: "d\\n# e\\n"\n---\n'
        assert front_matter(document) == {"a": "=", "<<": 1, "b": "2026-02-30", "c": "d\n# e\n"}

    def test_a_list_in_a_list_becomes_a_part_of_it(self) -> None:
        for line in ("a: [x, {{a|list: A}}]", "a:\n  - x\n  - {{a|list: A}}"):
            assert made(f"---\n{line}\n---\n", a=["y", "z"]).front_matter == {"a": ["x", "y", "z"]}

    def test_several_lines_become_one(self) -> None:
        assert body("---\na: {{a|A}}\n---\n", a="one\n\n# two: 'x'") == (
            "---\na: \"one\\n\\n# two: 'x'\"\n---\n"
        )

    def test_null_is_left_out(self) -> None:
        document = made("---\nyear: {{year|YYYY oder null}}\nkind: talk\n---\n", year=None)
        assert document.markdown == "---\nkind: talk\n---\n"
        assert document.structured_data == {"year": None}

    @given(VALUES)
    @settings(max_examples=200, deadline=None)
    def test_a_client_that_reads_line_by_line_reads_every_value(self, value: Any) -> None:
        document = made(
            "---\na: {{a}}\ntags: {{tags|list: T}}\nd: e\n---\nx", {"a": value}, tags=["b"]
        )
        fields = client_front_matter(document.markdown)
        assert fields["d"] == "e"
        assert fields["tags"] == ["b"]
        written = whole("" if value is None else value)
        if isinstance(written, float) and "e" in repr(written):
            written = repr(written)  # no plain number
            fields["a"] = repr(float(fields["a"]))
        assert fields["a"] == written

    def test_texts_that_look_like_something_else_stay_texts(self) -> None:
        for text in ("1e3", "0o17", "no", "2026-01-31", "null", "10:30", "0x1F"):
            assert f'a: "{text}"\n' in body("---\na: {{a|A}}\n---\n", a=text)

    def test_moments_are_written_as_iso_texts(self) -> None:
        context = {"a": date(2026, 1, 31), "b": datetime(2026, 1, 31, 8, tzinfo=UTC)}
        document = made("---\na: {{a}}\nb: {{b}}\n---\n", context)
        assert document.front_matter == {"a": "2026-01-31", "b": "2026-01-31T08:00:00+00:00"}

    def test_what_is_no_json_is_refused(self) -> None:
        with pytest.raises(InvalidParameters, match="object"):
            made("---\na: {{a}}\n---\n", {"a": object()})
        deep: Any = []
        for _ in range(100):
            deep = [deep]
        with pytest.raises(InvalidParameters, match="deep"):
            made("---\na: {{a}}\n---\n", {"a": deep})
        with pytest.raises(InvalidParameters, match="too long"):
            made("---\na: {{a}}\n---\n", {"a": {"k" * 2000: 1}})

    @given(VALUES, ANY_TEXT)
    @settings(max_examples=250, deadline=None)
    def test_every_value_is_read_as_it_was(self, value: Any, text: str) -> None:
        template = "---\na: {{a}}\nb:\n  - {{a}}\n  - x: {{text}}\nc: {{c|list: C}}\nd: e\n---\n"
        document = made(template, {"a": value}, text, c=[text, "x"])
        value, text = whole(value), whole(text)
        value = "" if value is None else value
        items = value if isinstance(value, list) else [value]
        expected = {"a": value, "b": [*items, {"x": text}], "c": [text, "x"], "d": "e"}
        assert front_matter(document.markdown) == document.front_matter == expected
        assert repr(front_matter(document.markdown)) == repr(expected)  # 1 is neither 1.0 nor True
        assert yaml.load(document.markdown.split("\n---\n")[0], yaml.CSafeLoader) == expected
        json.dumps(document.front_matter, allow_nan=False)

    @given(st.lists(PARTS, max_size=40).map("".join), st.text())
    @settings(max_examples=250, deadline=None)
    def test_no_template_and_no_value_breaks_it(self, head: str, text: str) -> None:
        with suppress(InvalidTemplate):
            template = parse(f"---\nfirst: {{{{a}}}}\n{head}\nlast: {{{{a}}}}\n---\n{{{{a}}}}")
            filled: dict[str, Any] = {field.name: text for field in template.fields}
            with suppress(UpstreamFailed):
                document = render(template, {"a": text}, filled, text)
                fields = front_matter(document.markdown)
                assert len(fields) == len(template.entries)
                if "last" in document.front_matter:  # otherwise there was a `---` in between
                    assert fields["last"] == whole(text)


class TestValues:
    def test_a_missing_value_is_empty_and_reported(self) -> None:
        document = made("---\na: {{b}}\n---\n# {{c}}!", {"c": None})
        assert document.markdown == '---\na: ""\n---\n\n# !\n'
        assert document.warnings == [
            "There is no value for `b`: it is left empty",
            "There is no value for `c`: it is left empty",
        ]

    def test_a_value_is_not_looked_through_for_further_slots(self) -> None:
        document = made(
            "---\na: {{a}}\n---\n{{a}} {{b|B}}\n\n{{text}}",
            {"a": "{{b}}", "secret": "x"},
            "{{secret}}",
            b="{{secret}}",
        )
        assert document.front_matter == {"a": "{{b}}"}
        assert document.markdown.endswith("\n\n{{b}} {{secret}}\n\n{{secret}}\n")

    def test_an_answer_comes_before_the_context_and_that_before_the_source(self) -> None:
        assert body("{{a|A}} {{b}}", {"a": "no", "b": "yes"}, a="yes") == "yes yes\n"
        assert body("{{text}}", {"text": "mine"}, "source") == "mine\n"

    def test_the_name_of_the_template_is_known(self) -> None:
        assert render(parse("{{template}}", "Talk"), {}, {}, "").markdown == "Talk\n"

    @pytest.mark.parametrize(
        ("instruction", "answer", "part"),
        [
            ("A text", 1, "must be a text"),
            ("A text", None, "must be a text"),
            ("list: L", "a, b", "must be a list"),
            ("list: L", [1], "item 1"),
            ("number: N", "1", "must be a number"),
            ("number: N", True, "must be a number"),
            ("integer: N", 1.5, "whole number"),
            ("boolean: B", "yes", "true or false"),
            ("one of a | b: C", "c", "one of a, b"),
            ("{x, y}: O", {"x": "1"}, "`y` of `a` is missing"),
            ("list of {x}: O", [{"x": 1}], "`x` of item 1 of `a` must be a text"),
        ],
    )
    def test_an_answer_that_does_not_fit_makes_no_document(
        self, instruction: str, answer: Any, part: str
    ) -> None:
        with pytest.raises(UpstreamFailed, match=part):
            made(f"{{{{a|{instruction}}}}}", a=answer)

    def test_a_missing_answer_makes_no_document(self) -> None:
        with pytest.raises(UpstreamFailed, match="`a` is missing"):
            made("{{a|A}}")

    def test_without_a_model_what_is_known_is_used_and_the_rest_is_empty(self) -> None:
        fields = parse(
            "{{a|A}}{{b|list: B}}{{c|number: C}}{{d|one of x | y: D}}{{e|list: E}}{{f|{x}: F}}"
        ).fields
        answers = fill_without_model(fields, {"a": "known", "b": "no list", "e": ["known"]})
        assert answers == {"a": "known", "b": [], "c": None, "d": "", "e": ["known"], "f": None}
        assert not validate_answer(fields, answers)

    def test_an_optional_field_without_a_value_is_left_out(self) -> None:
        template = (
            "---\na: {{a|A (optional)}}\nb: {{b|Array (optional)}}\nc: {{c|C}}\n---\n{{a}}\n\nx"
        )
        silent: list[dict[str, Any]] = [{"a": None, "b": []}, {"a": ""}, {}]
        for answers in silent:
            document = made(template, c="", **answers)
            assert document.structured_data == {"c": ""}
            assert document.markdown == '---\nc: ""\n---\n\nx\n'
        assert made(template, a="1", b=["2"], c="3").structured_data == {
            "a": "1",
            "b": ["2"],
            "c": "3",
        }

    def test_the_translation_of_an_object_has_no_fields_that_the_object_lacks(self) -> None:
        template = """---
structured_data:
  title: {{title|Title}}
  subtitle: {{subtitle|Subtitle}}
  year: {{year|YYYY oder null}}
  tags: {{tags|Array}}
  chapters: {{chapters|Array von Objekten}}
---
"""
        source = {"title": "Old", "tags": [], "chapters": [{"order": 1, "title": "One"}]}
        chapters = [{"order": 1, "title": "Eins"}]
        filled = {"title": "Neu", "subtitle": "", "year": None, "tags": [], "chapters": chapters}
        document = made(template, None, json.dumps(source, indent=2), **filled)
        assert document.structured_data == {"title": "Neu", "tags": [], "chapters": chapters}
        assert document.front_matter == {"structured_data": document.structured_data}

    def test_answers_take_the_form_that_was_asked_for(self) -> None:
        template = "{{a|integer: A}}{{b|list of {x, y: number}: B}}"
        document = made(template, a=3.0, b=[{"y": None, "x": "1", "z": 2}])
        assert json.dumps(document.structured_data) == '{"a": 3, "b": [{"x": "1", "y": null}]}'


class TestBody:
    def test_a_list_on_a_line_of_its_own_becomes_a_list(self) -> None:
        assert (
            body("{{a|list: A}}\n\nAll: {{a}}", a=["x", "y\nz"]) == "- x\n- y\n  z\n\nAll: x, y z\n"
        )

    def test_a_bullet_of_the_template_is_repeated(self) -> None:
        assert body("> 1. {{a|list: A}}\n", a=["x", "y"]) == "> 1. x\n> 1. y\n"

    def test_objects_become_a_table(self) -> None:
        assert body("{{a|list of {x, y}: A}}", a=[{"x": "a|b", "y": "c\nd"}]) == (
            "| x | y |\n| --- | --- |\n| a\\|b | c d |\n"
        )

    def test_an_object_becomes_a_list(self) -> None:
        assert body("{{a|{x, y, z}: A}}", a={"x": "1", "y": "", "z": "3"}) == "- x: 1\n- z: 3\n"

    def test_numbers_and_truths_are_no_reprs(self) -> None:
        assert body("{{a}} {{b}} {{c}} {{d}}", {"a": True, "b": 1.5, "c": 2, "d": {"e": None}}) == (
            "true 1.5 2 \n"
        )

    def test_a_quote_stays_a_quote_and_an_item_an_item(self) -> None:
        assert body("> {{a|A}}\n\n- {{a}}", a="x\n\n# y") == "> x\n>\n> # y\n\n- x\n\n  # y\n"

    @pytest.mark.parametrize(
        ("template", "expected"),
        [
            ("# {{a}}", "# x # y | z"),
            ("| {{a}} |", "| x # y \\| z |"),
            ("Seen: {{a}}", "Seen: x # y | z"),
            ("**{{a}}** b", "**x # y | z** b"),
        ],
    )
    def test_a_value_does_not_leave_its_line(self, template: str, expected: str) -> None:
        assert body(template, {"a": "x\n\n# y | z"}) == expected + "\n"

    def test_a_link_cannot_be_left(self) -> None:
        assert body("[{{a}}]({{a}})", {"a": "http://x/](y) <z>"}) == (
            "[http://x/\\](y) <z>](http://x/]%28y%29%20%3Cz%3E)\n"
        )

    def test_what_the_model_writes_behind_a_label_may_have_paragraphs(self) -> None:
        assert body("**Summary:** {{a|A}}", a="x\n\ny") == "**Summary:** x\n\ny\n"
        assert body("- **Place:** {{a|A}}\n- b", a="x\n\ny") == "- **Place:** x y\n- b\n"

    def test_an_empty_section_is_left_out_with_its_heading(self) -> None:
        template = (
            "# T\n\n## A\n\n{{a|A}}\n\n## B\n{{b|list: B}}\n\n### C\n\nc\n\n## D\n\n{{a}} d\n"
        )
        assert body(template, a=" ", b=[]) == "# T\n\n## B\n\n### C\n\nc\n\n## D\n\n d\n"

    def test_an_empty_value_takes_its_line_with_it(self) -> None:
        assert body("a\n\n{{a|A}}\n\nb\n- {{a}}\n- c\n", a="") == "a\n\nb\n- c\n"
        assert body("{{a|A}}\n\n{{b|B}}\n", a="", b="b") == "b\n"
        assert body("- a: {{b}}\n- b: {{a|A}}\n\n# c", {"b": "x"}, a="") == "- a: x\n\n# c\n"
        assert body("- **A:** {{a|A}}\n- b: {{a}}\n- c: d {{a}}", a="") == "- c: d \n"

    def test_code_is_no_heading(self) -> None:
        assert body("```\n# a\n{{a|A}}\n```", a="") == "```\n# a\n```\n"

    def test_a_value_cannot_become_the_front_matter(self) -> None:
        document = body("{{text}}", text="---\nadmin: true\n---\n")
        assert document == "***\nadmin: true\n---\n"

    def test_controls_are_taken_out(self) -> None:
        assert body("{{text}}", text="a\0b\x0cc\td\r\ne") == "abc\td\ne\n"

    @given(st.lists(PARTS, max_size=40).map("".join), ANY_TEXT)
    @settings(max_examples=200, deadline=None)
    def test_any_template_makes_a_document(self, template: str, text: str) -> None:
        with suppress(InvalidTemplate, UpstreamFailed):
            read = parse(template)
            filled = {one.name: [text] if one.field_type.is_list else text for one in read.fields}
            document = render(read, {}, filled, text)
            document.markdown.encode()
            if "{{" not in text:
                assert not ("{{" in document.markdown and "}}" in document.markdown)
