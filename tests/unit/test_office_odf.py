"""OpenDocument texts, sheets and presentations as Markdown."""

from pathlib import Path

import pytest

from secretary.core.errors import FileCorrupt, FileEncrypted, FileTooLarge

from ..minimal_files import PNG
from ..office_files import ODF_NAMES, markdown, odf_of, odt_of, read

STYLES = (
    '<style:style style:name="B" style:family="text"><style:text-properties'
    ' fo:font-weight="bold"/></style:style><style:style style:name="I" style:family="text"'
    ' style:parent-style-name="B"><style:text-properties fo:font-style="italic"/></style:style>'
    '<style:style style:name="Up" style:family="text"><style:text-properties'
    ' style:text-position="super 58%"/></style:style>'
    '<style:style style:name="P1" style:family="paragraph"'
    ' style:parent-style-name="Quotations"/>'
    '<text:list-style style:name="L"><text:list-level-style-number text:level="1"'
    ' style:num-format="1" style:num-suffix="."/><text:list-level-style-number text:level="2"'
    ' style:num-format="a" style:num-suffix=")"/></text:list-style>'
)


def items(*texts: str, style: str = "", more: str = "") -> str:
    inner = "".join(f"<text:list-item><text:p>{text}</text:p></text:list-item>" for text in texts)
    name = f' text:style-name="{style}"' if style else ""
    return f"<text:list{name}>{inner}{more}</text:list>"


def rows(*lines: str) -> str:
    written = "".join(
        "<table:table-row>"
        + "".join(f"<table:table-cell><text:p>{cell}</text:p></table:table-cell>" for cell in line)
        + "</table:table-row>"
        for line in lines
    )
    return f'<table:table table:name="T"><table:table-column/>{written}</table:table>'


class TestTexts:
    def test_headings_and_emphasis(self, tmp_path: Path) -> None:
        body = (
            '<text:h text:outline-level="2">Two</text:h><text:p>A <text:span'
            ' text:style-name="B">bold</text:span>,<text:s text:c="2"/>a <text:span'
            ' text:style-name="I">slanted</text:span>\n word,<text:line-break/>5 m<text:span'
            ' text:style-name="Up">2</text:span> and <text:a xlink:href="https://a.org">a link'
            '</text:a></text:p><text:p text:style-name="P1">Wise</text:p>'
            '<text:p text:style-name="Title">Named</text:p>'
        )
        assert markdown(odt_of(body, styles=STYLES), "odt", tmp_path) == (
            "## Two\n\nA **bold**,  a ***slanted*** word,  \n5 m² and [a link](https://a.org)\n\n"
            "> Wise\n\n# Named\n"
        )

    def test_lists_with_levels(self, tmp_path: Path) -> None:
        nested = items("x", "y")
        first = "<text:list-item><text:p>one</text:p>" + nested + "</text:list-item>"
        body = f'<text:list text:style-name="L">{first}</text:list>' + items("two", style="L")
        body = body.replace('<text:list text:style-name="L"><text:list-item><text:p>two',
                            '<text:list text:style-name="L" text:continue-numbering="true">'
                            "<text:list-item><text:p>two")  # fmt: skip
        assert markdown(odt_of(body, styles=STYLES), "odt", tmp_path) == (
            "1. one\n   - a) x\n   - b) y\n2. two\n"
        )

    def test_lists_without_a_style_have_bullets(self, tmp_path: Path) -> None:
        inner = "<text:list-item>" + items("deep") + "</text:list-item>"
        assert markdown(odt_of(items("a", more=inner)), "odt", tmp_path) == "- a\n  - deep\n"

    def test_tables_with_spans_and_repetitions(self, tmp_path: Path) -> None:
        cell = "<table:table-cell{}><text:p>{}</text:p></table:table-cell>".format
        body = (
            "<table:table><table:table-header-rows><table:table-row>"
            + cell(' table:number-columns-spanned="2"', "Head")
            + "<table:covered-table-cell/></table:table-row></table:table-header-rows>"
            + "<table:table-row>" + cell(' table:number-rows-spanned="2"', "x") + cell("", "a|b")
            + "</table:table-row><table:table-row><table:covered-table-cell/>" + cell("", "c")
            + "</table:table-row><table:table-row>"
            + cell(' table:number-columns-repeated="2"', "r") + "</table:table-row></table:table>"
        )  # fmt: skip
        assert markdown(odt_of(body), "odt", tmp_path) == (
            "| Head |  |\n| --- | --- |\n| x | a\\|b |\n| x | c |\n| r | r |\n"
        )

    def test_notes_comments_and_changes(self, tmp_path: Path) -> None:
        body = (
            "<text:tracked-changes><text:changed-region><text:deletion><text:p>gone</text:p>"
            "</text:deletion></text:changed-region></text:tracked-changes>"
            '<text:p>One<text:note text:note-class="footnote"><text:note-citation>1'
            "</text:note-citation><text:note-body><text:p>Foot</text:p></text:note-body></text:note>"
            " two<office:annotation><dc:creator>Anna</dc:creator><text:p>Why?</text:p>"
            "</office:annotation>.</text:p>"
        )
        assert markdown(odt_of(body), "odt", tmp_path) == (
            "One[^1] two[^c1].\n\n[^1]: Foot\n\n[^c1]: *Anna:* Why?\n"
        )

    def test_pictures_and_text_boxes(self, tmp_path: Path) -> None:
        body = (
            '<text:p>See <draw:frame><draw:image xlink:href="Pictures/a.png"/>'
            "<svg:desc>A dot</svg:desc></draw:frame>.</text:p><text:p>Box<draw:frame>"
            "<draw:text-box><text:p>Inside</text:p></draw:text-box></draw:frame></text:p>"
        )
        file = odt_of(body, parts={"Pictures/a.png": PNG})
        page = read(file, "odt", tmp_path, include_images=True).pages[0]
        assert page.markdown == "See ![A dot](img-001.png).\n\nBox\n\nInside\n"
        assert page.pictures == ("img-001.png",)

    def test_its_properties(self, tmp_path: Path) -> None:
        meta = (
            f"<office:document-meta {ODF_NAMES}><office:meta><dc:title>On odt</dc:title>"
            "<meta:initial-creator>Anna</meta:initial-creator></office:meta></office:document-meta>"
        )
        facts = read(odt_of("<text:p/>", parts={"meta.xml": meta.encode()}), "odt", tmp_path).facts
        assert facts == {"title": "On odt", "author": "Anna"}

    def test_an_encrypted_one_is_refused_by_name(self, tmp_path: Path) -> None:
        with pytest.raises(FileEncrypted):
            read(odt_of("<text:p/>", is_encrypted=True), "odt", tmp_path)

    def test_without_content_it_is_corrupt(self, tmp_path: Path) -> None:
        file = odt_of("<text:p/>").replace(b"content.xml", b"nothing.xml")
        with pytest.raises(FileCorrupt):
            read(file, "odt", tmp_path)


class TestSheets:
    def test_cells_are_printed_as_displayed(self, tmp_path: Path) -> None:
        body = (
            '<table:table table:name="Figures"><table:table-row table:number-rows-repeated="3">'
            '<table:table-cell table:number-columns-repeated="16384"/></table:table-row>'
            '<table:table-row><table:table-cell/><table:table-cell office:value="0.5">'
            '<text:p>50 %</text:p></table:table-cell><table:table-cell office:value="7"/>'
            '<table:table-cell><text:p><text:a xlink:href="https://a.org">site</text:a></text:p>'
            "<text:p>two</text:p></table:table-cell></table:table-row>"
            '<table:table-row table:number-rows-repeated="1048572"><table:table-cell/>'
            "</table:table-row></table:table>"
        )
        assert markdown(odf_of("spreadsheet", body), "ods", tmp_path) == (
            "# Figures\n\n| 50 % | 7 | [site<br>two](https://a.org) |\n| --- | --- | --- |\n"
        )

    def test_hidden_sheets_say_so(self, tmp_path: Path) -> None:
        styles = (
            '<style:style style:name="ta" style:family="table"><style:table-properties'
            ' table:display="false"/></style:style>'
        )
        body = rows("a").replace("<table:table ", '<table:table table:style-name="ta" ', 1)
        file = odf_of("spreadsheet", body + rows("b"), styles=styles)
        pages = read(file, "ods", tmp_path).pages
        assert [page.facts["is_hidden"] for page in pages] == [True, False]
        assert pages[0].markdown.startswith("# T (hidden)\n")

    def test_repetitions_without_end_are_refused(self, tmp_path: Path) -> None:
        row = '<table:table-row table:number-rows-repeated="1048576">'
        body = rows("a").replace("<table:table-row>", row)
        body = body.replace(
            "<table:table-cell>", '<table:table-cell table:number-columns-repeated="16384">'
        )
        with pytest.raises(FileTooLarge):
            read(odf_of("spreadsheet", body), "ods", tmp_path)


class TestPresentations:
    def test_slides_with_titles_items_and_notes(self, tmp_path: Path) -> None:
        def frame(kind: str, inner: str, top: int) -> str:
            return (
                f'<draw:frame presentation:class="{kind}" svg:x="1cm" svg:y="{top}cm"'
                f' svg:width="9cm" svg:height="2cm"><draw:text-box>{inner}</draw:text-box>'
                "</draw:frame>"
            )

        body = (
            "<draw:page>"
            + frame("outline", items("a", "b"), 5)
            + frame("footer", "<text:p>Company</text:p>", 18)
            + '<draw:custom-shape svg:x="1cm" svg:y="3cm"><text:p>Shape</text:p>'
            + "</draw:custom-shape>"
            + frame("title", "<text:p>Title</text:p>", 9)
            + "<draw:g><draw:rect><text:p>Grouped</text:p></draw:rect></draw:g>"
            + "<presentation:notes>" + frame("notes", "<text:p>Slowly</text:p>", 1)
            + "</presentation:notes></draw:page><draw:page/>"
        )  # fmt: skip
        pages = read(odf_of("presentation", body), "odp", tmp_path).pages
        assert [page.markdown for page in pages] == [
            "# Title\n\nShape\n\nGrouped\n\n- a\n- b\n\n## Notes\n\nSlowly\n",
            "",
        ]
