"""Which templates there are, how they are found, and that the built-in ones are good."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from secretary.core.errors import InvalidTemplate, UnknownTemplate
from secretary.llm.templates import Library, Template
from secretary.llm.templates.library import SHIPPED
from secretary.llm.templates.rendering import render
from secretary.llm.templates.template import FieldType, Slot, schema

GOLDEN = Path(__file__).parents[1] / "golden_documents"
NAMES = sorted(path.stem for path in SHIPPED.glob("*.md"))
KINDS = sorted({name[:-3] for name in NAMES if name.endswith("_de")})
GERMAN = {"Besprechung", "Gedanken", "Interview", "Zusammenfassung", "Youtube", "pdfanalyse"}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    directory = tmp_path / "own"
    directory.mkdir()
    return directory


class TestFinding:
    @pytest.mark.parametrize(
        ("name", "language", "expected"),
        [
            ("Session_de", None, "Session_de"),
            ("session_DE", None, "Session_de"),
            ("SESSION", "de", "Session_de"),
            ("Session", "de-AT", "Session_de"),
            ("Session", "German", "Session_de"),
            ("Session", "en", "Session_en"),
            ("Session", "fr", "Session_en"),
            ("Session", None, "Session_en"),
            ("Session.md", None, "Session_en"),
            ("Session_de", "en", "Session_de"),
            ("Blogeintrag", None, "Blog_de"),
        ],
    )
    def test_a_name_and_a_language_lead_to_it(
        self, name: str, language: str | None, expected: str
    ) -> None:
        template = Library().find(name, language=language)
        assert template.name == expected
        assert template.language == expected[-2:]

    @pytest.mark.parametrize(
        ("name", "expected", "language"),
        [
            ("Session_fr", "Session_en", "fr"),
            ("session_analyze_DE", "Session_analyze", "de"),
            ("track_eco_social_de", "Track_eco_social_de", "de"),
            ("track_eco_social_it", "Track_eco_social_en", "it"),
            ("TRACK_TECHNOLOGY_en", "Track_technology", "en"),
            ("besprechung", "Besprechung", None),
        ],
    )
    def test_a_language_that_does_not_exist_is_written_with_another_variant(
        self, name: str, expected: str, language: str | None
    ) -> None:
        template = Library().find(name)
        assert (template.name, template.language) == (expected, language)

    @pytest.mark.parametrize(
        "name",
        ["../Session_en", "/etc/passwd", "..", ".", "", "Session_en\0", "a/b", "a\\b", "C:\\a", "~",
         "Session_en/../Session_en", "%2e%2e", "x" * 5000, "-rf", "\u202eSession_en", "con", "NUL",
         "Session_en.md.md", "shipped/Session_en", "Session_xx", "*", "Session_e?"],
    )  # fmt: skip
    def test_no_name_leads_elsewhere(self, own: Path, name: str) -> None:
        with pytest.raises(UnknownTemplate):
            Library(own).find(name)

    def test_the_error_lists_the_available_ones(self) -> None:
        with pytest.raises(UnknownTemplate, match="Session_de, Session_en"):
            Library().find("Sesion")

    def test_an_own_one_comes_first(self, own: Path) -> None:
        (own / "session.md").write_text("mine {{a|A}}")
        library = Library(own)
        assert library.find("Session", language="de").source == "mine {{a|A}}"
        assert library.find("Session_de").name == "Session_de"
        (own / "SESSION_DE.md").write_text("deutsch {{a|A}}")
        assert library.find("Session", language="de").source == "deutsch {{a|A}}"
        listed = {one.name: one.origin for one in library.listed()}
        assert (listed["SESSION_DE"], listed["session"]) == ("own", "own")
        assert "Session_de" not in listed

    def test_a_german_name_of_ours_may_be_an_own_one(self, own: Path) -> None:
        for name in ("Besprechung", "Blogeintrag"):
            (own / f"{name}.md").write_text("mine {{a|A}}")
            assert Library(own).find(name.lower()).source == "mine {{a|A}}"

    def test_a_changed_file_is_seen_at_once(self, own: Path) -> None:
        library = Library(own)
        file = own / "Mine.md"
        file.write_text("one {{a|A}}")
        first = library.find("mine")
        assert library.find("mine") is first
        file.write_text("another {{a|A}}")
        assert library.find("mine").source == "another {{a|A}}"
        file.unlink()
        with pytest.raises(UnknownTemplate):
            library.find("mine")

    def test_a_directory_that_is_not_there_has_none(self, tmp_path: Path) -> None:
        assert Library(tmp_path / "no").listed() == Library().listed()


class TestHostileFiles:
    def test_a_link_out_of_the_directory_is_not_followed(self, own: Path, tmp_path: Path) -> None:
        secret = tmp_path / "secret.md"
        secret.write_text("secret")
        (own / "leak.md").symlink_to(secret)
        (own / "inside.md").write_text("inside")
        (own / "link.md").symlink_to("inside.md")
        (own / "loop.md").symlink_to("loop.md")
        (own / "dangling.md").symlink_to("nowhere.md")
        names = {one.name for one in Library(own).listed() if one.origin == "own"}
        assert names == {"inside", "link"}

    def test_what_is_no_file_is_left_alone(self, own: Path) -> None:
        (own / "directory.md").mkdir()
        os.mkfifo(own / "pipe.md")
        (own / "notes.txt").write_text("x")
        (own / ".hidden.md").write_text("x")
        assert not [one for one in Library(own).listed() if one.origin == "own"]

    def test_a_template_with_faults_is_listed_and_not_used(self, own: Path) -> None:
        (own / "Session_de.md").write_text("# a\n{{b")
        library = Library(own)
        with pytest.raises(InvalidTemplate, match="Session_de cannot be used: line 2: "):
            library.find("Session_de")
        (listed,) = [one for one in library.listed() if one.origin == "own"]
        assert [fault.line for fault in listed.faults] == [2]
        assert listed.document()["faults"][0]["line"] == 2

    @pytest.mark.parametrize(
        ("content", "line", "part"),
        [(b"a\n\xff", 2, "UTF-8"), (b"x" * 2_000_000, 1, "longer"), (b"", 1, "empty")],
    )
    def test_any_content_is_borne(self, own: Path, content: bytes, line: int, part: str) -> None:
        (own / "Mine.md").write_bytes(content)
        (fault,) = Library(own).look_up("mine").faults
        assert fault.line == line
        assert part in fault.message

    def test_an_unreadable_template_is_reported(self, own: Path) -> None:
        file = own / "Mine.md"
        file.write_text("x")
        file.chmod(0)
        if os.access(file, os.R_OK):
            pytest.skip("This user may read everything")
        assert Library(own).look_up("mine").faults


#: Text that a document must cope with.
AWKWARD = 'He said: "it\'s 5 €" yes\n\n# No heading 🎉\n---\nadmin: true\n{{event}} \\ <b>'
CONTEXT = {
    "event": "FOSDEM: 2026",
    "track": "- Main",
    "day": "2026-01-31",
    "starttime": "10:30",
    "endtime": None,
    "url": "https://example.org/a?b=c#d",
    "video_url": "",
    "attachments_url": "https://example.org/s.pdf",
    "target_language": "de",
    "author": "Ö, \"Jo\"",
    "date": "2026-01-31",
    "video": "",
    "slides": "| 1 | ![](assets/1.png) |\n|---|---|\n| 2 | x |",
    "links": ["https://example.org/"],
}  # fmt: skip


def answer(kind: FieldType, name: str) -> Any:
    """The same value for each field, and never an easy one."""
    if kind.is_list:
        single = FieldType(base=kind.base, properties=kind.properties, choices=kind.choices)
        return [] if name in ("absent", "sources") else [answer(single, name), answer(single, "")]
    match kind.base:
        case "number" | "integer":
            return 2026
        case "boolean":
            return True
        case "date":
            return "2026-01-31"
        case "choice":
            return kind.choices[-1]
        case "object":
            return {part: answer(inner, part) for part, inner in kind.properties}
    return {"title": AWKWARD, "subtitle": "", "questions": "", "tags": "yes"}.get(
        name, f"{name}: {AWKWARD}" if name else "1e3"
    )


@pytest.mark.parametrize("name", NAMES)
class TestShipped:
    def test_its_document_is_as_it_should_be(self, name: str) -> None:
        template = Library().find(name)
        filled = {field.name: answer(field.field_type, field.name) for field in template.fields}
        document = render(template, CONTEXT, filled, AWKWARD)
        head = document.markdown.removeprefix("---\n").partition("\n---\n")[0]
        assert yaml.safe_load(head) == document.front_matter == expected(template, filled)
        assert document.structured_data == filled
        jsonschema = pytest.importorskip("jsonschema")  # installed by other development tools
        jsonschema.Draft202012Validator.check_schema(schema(template))
        jsonschema.validate(filled, schema(template))
        assert document.markdown == (GOLDEN / f"{name}.md").read_text()

    def test_every_endpoint_knows_the_words_of_its_schema(self, name: str) -> None:
        words: set[str] = set()
        deepest = _words(schema(Library().find(name)), words)
        objects = {"properties", "required", "additionalProperties"}
        assert words <= {"type", "items", "enum", "description"} | objects
        assert deepest <= 5

    def test_it_has_no_faults_and_forbids_to_invent_and_to_obey(self, name: str) -> None:
        template = Library().find(name)
        assert not template.warnings
        assert template.title != name
        is_german = name in GERMAN or name.endswith("_de")
        assert ("efolge sie nicht" if is_german else "ot follow them") in template.system_prompt
        assert len({field.instruction for field in template.fields}) == len(template.fields)


def _words(part: dict[str, Any], words: set[str]) -> int:
    words |= part.keys()
    if part["type"] == "object" or "object" in part["type"]:
        assert part["additionalProperties"] is False
        assert part["required"] == list(part["properties"])
    below = [*part.get("properties", {}).values(), *([part["items"]] if "items" in part else [])]
    return 1 + max((_words(inner, words) for inner in below), default=0)


def expected(template: Template, filled: dict[str, Any]) -> dict[str, Any]:
    """All their entries are `key: {{name}}` or constants."""
    values = {**CONTEXT, "template": template.name, **filled}
    values = {name: "" if value is None else value for name, value in values.items()}
    return {
        entry.key: values.get(entry.value.name, "")
        if isinstance(entry.value, Slot)
        else entry.value
        for entry in template.entries
    }


@pytest.mark.parametrize("kind", KINDS)
def test_both_languages_ask_for_the_same(kind: str) -> None:
    german, english = Library().find(f"{kind}_de"), Library().find(f"{kind}_en")
    assert [field.name for field in german.fields] == [field.name for field in english.fields]
    assert german.context_keys == english.context_keys
    assert [entry.key for entry in german.entries] == [entry.key for entry in english.entries]
    for theirs, ours in zip(german.fields, english.fields, strict=True):
        assert (theirs.field_type.base, theirs.field_type.is_list) == (
            ours.field_type.base,
            ours.field_type.is_list,
        )
        assert len(theirs.field_type.properties) == len(ours.field_type.properties)
        assert len(theirs.field_type.choices) == len(ours.field_type.choices)


def test_these_exist_in_german_and_english() -> None:
    assert KINDS == [
        "Blog", "Document", "Meeting", "Metadata", "Notes", "Session", "Track_eco_social",
    ]  # fmt: skip


#: The fields that existing clients read, by the name under which they ask for the template.
CLIENT_FIELDS = {
    "Besprechung": "tags personen date ort title summary messages nexsSteps transcript",
    "Gedanken": "tags personen upload_date ort title summary messages",
    "Interview": "title summary messages nextSteps",
    "Zusammenfassung": "title summary messages nextSteps",
    "Youtube": "tags personen upload_date ort title summary messages chapters view_count"
    " like_count duration age_limit",
    "Session_analyze_de": "title shortTitle slug summary teaser affiliations tags topics year date"
    " starttime endtime duration location slides summaryInText",
    "ExtractSessionDataFromWebsite": "event session subtitle description filename track image_url"
    " speakers speakers_url speakers_image_url video_url attachments_url url day starttime endtime"
    " language",
    "ExtractSessionListFromWebsite": "event items",
    "pdfanalyse": "title shortTitle slug summary teaser authors tags topics docType year region"
    " language source project chapters toc",
    "track_eco_social_de": "tags topic general_summary event_list eco_social_relevance"
    " eco_social_applications challenges",
    "Event_eco_social_de": "tags event general_summary track_list eco_social_relevance"
    " eco_social_applications challenges",
    "track_technology_de": "tags topic general_summary event_list challenges",
    "track_business_de": "tags topic general_summary event_list challenges",
    "image_classify": "title category tags description objects mood quality",
}
LISTS = frozenset(
    {"affiliations", "topics", "authors", "items", "chapters", "toc", "slides", "speakers",
     "speakers_url", "speakers_image_url"}
)  # fmt: skip


@pytest.mark.parametrize("name", CLIENT_FIELDS)
def test_a_template_that_clients_name_has_the_fields_that_they_read(name: str) -> None:
    types = {field.name: field.field_type for field in Library().find(name).fields}
    assert set(CLIENT_FIELDS[name].split()) <= types.keys()
    lists = {field for field, kind in types.items() if kind.is_list}
    if name in ("Session_analyze_de", "pdfanalyse"):
        assert lists - {"tags"} == LISTS & types.keys() and "tags" in lists
    elif name == "Youtube":
        assert not lists  # here the chapters are Markdown
    else:
        assert lists == LISTS & types.keys()
