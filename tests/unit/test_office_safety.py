"""Malicious office files: each is rejected with an error code, or does no harm."""

import contextlib
import re
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import docx
import openpyxl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pptx import Presentation

from secretary.core.errors import (
    FileCorrupt,
    FileEncrypted,
    FileTooLarge,
    SecretaryError,
    UnsupportedFile,
)
from secretary.core.files import detect_file_type

from ..hostile_office import members, xlsx_of
from ..minimal_files import PNG, zipped
from ..office_files import (
    NAMES,
    docx_of,
    markdown,
    odf_of,
    odt_of,
    ole_of,
    paragraph,
    read,
)
from ..sample_documents import saved

MIB = 1024 * 1024
LAUGHS = "".join(f'<!ENTITY l{at} "{f"&l{at - 1};" * 10 if at else "ha"}">' for at in range(10))
SECRET = "TOP-SECRET"


def a_docx() -> bytes:
    document = docx.Document()
    document.add_heading("Title", 1)
    document.add_paragraph("Text", style="List Bullet")
    document.add_table(2, 2).cell(0, 0).text = "cell"
    return saved(document.save)


def an_xlsx() -> bytes:
    book = openpyxl.Workbook()
    book.active.append(["a", 1, 0.5])
    return saved(book.save)


def a_pptx() -> bytes:
    presentation = Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text = "Title"
    slide.placeholders[1].text_frame.text = "Text"
    return saved(presentation.save)


def an_odt() -> bytes:
    return odt_of("<text:h>Title</text:h><text:p>Text</text:p>")


def an_epub() -> bytes:
    return zipped(
        {
            "mimetype": b"application/epub+zip",
            "META-INF/container.xml": b'<container xmlns="urn:oasis:names:tc:opendocument:xmlns:'
            b'container"><rootfile full-path="p.opf"/></container>',
            "p.opf": b'<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a"'
            b' href="a.html"/></manifest><spine><itemref idref="a"/></spine></package>',
            "a.html": b"<html><body><p>Text</p></body></html>",
        }
    )


FILES: dict[str, Callable[[], bytes]] = {
    "docx": a_docx, "xlsx": an_xlsx, "pptx": a_pptx, "odt": an_odt, "epub": an_epub,
    "rtf": lambda: rb"{\rtf1\ansi {\b Text}\trowd\cellx9\intbl a\cell\row\pard{\footnote b}\par}",
    "html": lambda: b"<!DOCTYPE html><table><tr><td>Text</table><ul><li>a<pre>b</pre></ul>",
    "text": lambda: b"a;b\n1;2\n",
}  # fmt: skip
#: The part of each that contains the text.
PARTS = {
    "docx": "word/document.xml",
    "xlsx": "xl/worksheets/sheet1.xml",
    "pptx": "ppt/slides/slide1.xml",
    "odt": "content.xml",
    "epub": "p.opf",
}


def an_xlsx_without_sheets() -> bytes:
    parts = members(an_xlsx())
    parts["xl/workbook.xml"] = re.sub(rb"<sheets>.*</sheets>", b"", parts["xl/workbook.xml"])
    return zipped(parts)


WITHOUT_PAGES: dict[str, Callable[[], bytes]] = {
    "ods": lambda: odf_of("spreadsheet", ""),
    "odp": lambda: odf_of("presentation", ""),
    "pptx": lambda: saved(Presentation().save),
    "xlsx": an_xlsx_without_sheets,
}


def with_part(kind: str, change: Callable[[bytes], bytes]) -> bytes:
    parts = members(FILES[kind]())
    return zipped(parts | {PARTS[kind]: change(parts[PARTS[kind]])}, zipfile.ZIP_DEFLATED)


def declaring(doctype: str, use: str = "") -> Callable[[bytes], bytes]:
    """Puts a DOCTYPE before the root of an XML part, and an entity into its first text."""

    def change(part: bytes) -> bytes:
        text = part.decode()
        head, rest = text[: text.find("?>") + 2] if text.startswith("<?xml") else "", text
        rest = rest[len(head) :]
        at = max(rest.find(">Text<"), rest.find(">Title<"))
        if use and at > 0:
            rest = rest[: at + 1] + use + rest[at + 1 :]
        return f"{head}{doctype}{rest}".encode()

    return change


class TestZips:
    def test_a_zip_bomb_is_recognised_by_its_ratio(self, tmp_path: Path) -> None:
        bomb = with_part("docx", lambda part: part + b" " * (100 * MIB))
        assert len(bomb) < MIB
        with pytest.raises(FileTooLarge, match="tightly"):
            read(bomb, "docx", tmp_path)

    def test_a_bomb_in_a_sheet_too(self, tmp_path: Path) -> None:
        row = b"<row><c><v>1</v></c></row>"
        bomb = with_part(
            "xlsx", lambda part: part.replace(b"</sheetData>", row * 400_000 + b"</sheetData>")
        )
        with pytest.raises(FileTooLarge):
            read(bomb, "xlsx", tmp_path)

    @pytest.mark.parametrize("kind", ["xlsx", "ods", "odt"])
    def test_one_long_text_in_many_cells_is_too_large(self, kind: str, tmp_path: Path) -> None:
        text = "".join(f"{number:x} " for number in range(5000))
        row = '<row><c t="s"><v>0</v></c></row>'
        times = 'table:number-{}-repeated="900"'.format
        table = (
            f"<table:table><table:table-row {times('rows')}><table:table-cell {times('columns')}>"
            f"<text:p>{text}</text:p></table:table-cell></table:table-row></table:table>"
        )
        content = {
            "xlsx": lambda: xlsx_of(
                f"<sheetData>{row * 5000}</sheetData>", f"<si><t>{text}</t></si>"
            ),
            "ods": lambda: odf_of("spreadsheet", table),
            "odt": lambda: odf_of("text", table),
        }[kind]()
        with pytest.raises(FileTooLarge, match="cells of the document"):
            read(content, kind, tmp_path)

    def test_all_parts_together_have_a_limit(self, tmp_path: Path) -> None:
        with pytest.raises(FileTooLarge, match="once it is unpacked"):
            read(a_docx(), "docx", tmp_path, max_expanded_bytes=20_000)

    def test_a_size_that_is_a_lie_is_no_help(self, tmp_path: Path) -> None:
        bomb = bytearray(with_part("docx", lambda part: part + b" " * (100 * MIB)))
        real = struct.pack("<I", len(members(bytes(bomb))["word/document.xml"]))
        assert bomb.count(real) == 2
        with pytest.raises((FileCorrupt, FileTooLarge)):
            read(bytes(bomb.replace(real, struct.pack("<I", 5000))), "docx", tmp_path)

    def test_zips_inside_are_not_opened(self, tmp_path: Path) -> None:
        inner = zipped({"a": bytes(50 * MIB)}, zipfile.ZIP_DEFLATED)
        parts = members(a_docx()) | {"word/embeddings/a.zip": inner}
        assert "# Title" in markdown(zipped(parts), "docx", tmp_path)

    def test_names_that_lead_out_lead_nowhere(self, tmp_path: Path) -> None:
        blip = (
            '<w:p><w:r><w:drawing><pic:pic xmlns:pic="http://schemas.openxmlformats.org/drawingml/'
            '2006/picture" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main">'
            '<pic:blipFill><a:blip r:embed="{}"/></pic:blipFill></pic:pic></w:drawing></w:r></w:p>'
        )
        (tmp_path / "evil.png").write_bytes(PNG)
        related = {
            "one": ("image", "../../../evil.png"),
            "two": ("image", "/../../evil.png"),
            "three": ("image", (tmp_path / "evil.png").as_uri()),
        }
        body = "".join(blip.format(name) for name in related)
        parts = members(docx_of(body, related)) | {"../../evil.png": PNG, "evil.png": PNG}
        page = read(zipped(parts), "docx", tmp_path, include_images=True).pages[0]
        assert page.pictures == ("img-001.png",)  # that of the document itself
        assert [path.name for path in (tmp_path / "pictures").iterdir()] == ["img-001.png"]

    @pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_what_no_office_program_packs_is_not_unpacked(
        self, tmp_path: Path, packing: int
    ) -> None:
        content = bytearray(zipped(members(a_docx()), packing))
        content[content.index(b"word/document.xml") + 40] ^= 0xFF
        with pytest.raises(FileCorrupt, match="packed"):
            read(bytes(content), "docx", tmp_path)

    def test_encrypted_members_are_encrypted_files(self, tmp_path: Path) -> None:
        file = bytearray(docx_of(paragraph("x")))
        for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            at = file.find(mark)
            while at >= 0:
                file[at + offset] |= 1
                at = file.find(mark, at + 1)
        with pytest.raises(FileEncrypted):
            read(bytes(file), "docx", tmp_path)


@pytest.mark.parametrize("kind", PARTS)
class TestEntities:
    def test_a_billion_laughs_attack_is_rejected(self, tmp_path: Path, kind: str) -> None:
        file = with_part(kind, declaring(f"<!DOCTYPE x [{LAUGHS}]>", "&l9;"))
        start = time.monotonic()
        with pytest.raises(FileCorrupt):
            read(file, kind, tmp_path)
        assert time.monotonic() - start < 5

    def test_other_files_are_not_read(self, tmp_path: Path, kind: str) -> None:
        (tmp_path / "secret").write_text(SECRET)
        address = (tmp_path / "secret").as_uri()
        for doctype in (
            f'<!DOCTYPE x [<!ENTITY e SYSTEM "{address}">]>',
            f'<!DOCTYPE x [<!ENTITY % p SYSTEM "{address}"> %p;]>',
        ):
            with pytest.raises(FileCorrupt):
                read(with_part(kind, declaring(doctype, "&e;")), kind, tmp_path)

    def test_a_dtd_elsewhere_is_not_fetched(self, tmp_path: Path, kind: str) -> None:
        (tmp_path / "a.dtd").write_text(f'<!ENTITY e "{SECRET}">')
        doctype = f'<!DOCTYPE x SYSTEM "{(tmp_path / "a.dtd").as_uri()}">'
        try:
            output = markdown(with_part(kind, declaring(doctype, "&e;")), kind, tmp_path)
        except FileCorrupt:
            output = ""
        assert SECRET not in output

    def test_another_encoding_hides_nothing(self, tmp_path: Path, kind: str) -> None:
        def hidden(part: bytes) -> bytes:
            text = declaring(f"<!DOCTYPE x [{LAUGHS}]>", "&l9;")(part).decode()
            text = text.replace("UTF-8", "UTF-16").replace("utf-8", "utf-16")
            return text.encode("utf-16")

        with pytest.raises(FileCorrupt):
            read(with_part(kind, hidden), kind, tmp_path)


class TestDepth:
    @pytest.mark.parametrize("depth", [20, 5000])
    def test_tables_in_tables(self, tmp_path: Path, depth: int) -> None:
        start, end = "<w:tbl><w:tr><w:tc>", "</w:tc><w:tc/></w:tr></w:tbl>"
        file = docx_of(start * depth + paragraph("deep") + end * depth)
        if depth < 50:
            assert "deep" in markdown(file, "docx", tmp_path)
        else:
            with pytest.raises(FileCorrupt):
                read(file, "docx", tmp_path)

    @pytest.mark.parametrize("tag", ["w:sdt", "w:ins", "w:smartTag"])
    def test_wrappers_in_wrappers(self, tmp_path: Path, tag: str) -> None:
        file = docx_of("<w:p>" + f"<{tag}>" * 5000 + f"</{tag}>" * 5000 + "</w:p>")
        with pytest.raises(FileCorrupt):
            read(file, "docx", tmp_path)

    def test_lists_in_lists(self, tmp_path: Path) -> None:
        start, end = "<text:list><text:list-item>", "</text:list-item></text:list>"
        file = odt_of(start * 3000 + "<text:p>deep</text:p>" + end * 3000)
        with pytest.raises(FileCorrupt):
            read(file, "odt", tmp_path)

    def test_styles_that_are_based_on_each_other(self, tmp_path: Path) -> None:
        styles = "".join(
            f'<w:style w:type="paragraph" w:styleId="{a}"><w:basedOn w:val="{b}"/></w:style>'
            for a, b in ("xy", "yx")
        )
        body = paragraph("Text", '<w:pStyle w:val="x"/>')
        file = docx_of(body, styles=f"<w:styles {NAMES}>{styles}</w:styles>")
        assert markdown(file, "docx", tmp_path) == "Text\n"

    def test_notes_that_note_themselves(self, tmp_path: Path) -> None:
        mark = '<w:p><w:r><w:t>n</w:t><w:footnoteReference w:id="1"/></w:r></w:p>'
        notes = f'<w:footnotes {NAMES}><w:footnote w:id="1">{mark}</w:footnote></w:footnotes>'
        assert markdown(docx_of(mark, footnotes=notes), "docx", tmp_path) == (
            "n[^1]\n\n[^1]: n[^1]\n"
        )


@pytest.mark.timeout(20)
def test_white_space_without_end_is_no_trouble(tmp_path: Path) -> None:
    gap = " " * 300_000
    file = docx_of(
        f"<w:p><w:r><w:t>a{gap}b</w:t><w:br/><w:t>{gap}c!{'!' * 300_000}</w:t></w:r></w:p>"
    )
    assert len(markdown(file, "docx", tmp_path)) > 600_000
    rows = f'"a{gap}b\nc{gap}d",{"=" * 300_000}\n'.encode() * 3
    assert len(markdown(rows, "text", tmp_path, name="a.csv")) > 600_000


class TestDamage:
    @pytest.mark.parametrize("kind", PARTS)
    @pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
    def test_what_was_cut_off_is_corrupt(self, tmp_path: Path, kind: str, share: float) -> None:
        file = FILES[kind]()
        with pytest.raises(FileCorrupt):
            read(file[: int(len(file) * share)], kind, tmp_path)

    @pytest.mark.parametrize("kind", PARTS)
    def test_a_part_that_is_no_xml_is_corrupt(self, tmp_path: Path, kind: str) -> None:
        for change in (lambda part: part[: len(part) // 2], lambda part: b"", lambda part: b"\xff"):
            with pytest.raises(FileCorrupt):
                read(with_part(kind, change), kind, tmp_path)

    @pytest.mark.parametrize("kind", ["docx", "xlsx", "pptx", "odt", "epub"])
    def test_an_archive_of_something_else_is_corrupt(self, tmp_path: Path, kind: str) -> None:
        with pytest.raises(FileCorrupt):
            read(zipped({"a.txt": b"x"}), kind, tmp_path)

    @pytest.mark.parametrize("kind", ["ods", "odp", "pptx", "xlsx"])
    def test_a_file_without_sheets_or_slides_says_so(self, tmp_path: Path, kind: str) -> None:
        with pytest.raises(FileCorrupt, match="nothing in the"):
            read(WITHOUT_PAGES[kind](), kind, tmp_path)

    @pytest.mark.parametrize("kind", FILES)
    @settings(
        max_examples=30,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(data=st.data())
    def test_any_damage_ends_in_an_error_of_ours(
        self, tmp_path: Path, kind: str, data: st.DataObject
    ) -> None:
        file = FILES[kind]()
        whole = members(file) if kind in PARTS else {"": file}
        name = data.draw(st.sampled_from(sorted(whole)))
        part = bytearray(whole[name])
        for _ in range(data.draw(st.integers(1, 5))):
            at = data.draw(st.integers(0, max(len(part) - 1, 0)))
            end = at + data.draw(st.integers(0, 30))
            part[at:end] = data.draw(
                st.sampled_from([b"", b"-1", b"x", b"99999999999", b"<a/>", b"}"])
            )
        damaged = zipped(whole | {name: bytes(part)}) if kind in PARTS else bytes(part)
        with contextlib.suppress(SecretaryError):
            read(damaged, kind, tmp_path, include_images=True, name="a.csv")


class TestOldFormats:
    def test_an_encrypted_document_says_so(self, tmp_path: Path) -> None:
        with pytest.raises(FileEncrypted, match="password"):
            read(ole_of("EncryptionInfo", "EncryptedPackage"), "ole", tmp_path)

    @pytest.mark.parametrize(
        ("stream", "suffix"),
        [("WordDocument", "doc"), ("Workbook", "xls"), ("PowerPoint Document", "ppt")],
    )
    def test_binary_ones_go_by_way_of_a_pdf(self, tmp_path: Path, stream: str, suffix: str) -> None:
        with pytest.raises(UnsupportedFile, match=rf"\.{suffix} .*via_pdf"):
            read(ole_of(stream), "ole", tmp_path)

    def test_others_are_not_supported(self, tmp_path: Path) -> None:
        with pytest.raises(UnsupportedFile):
            read(ole_of("Thumbs"), "ole", tmp_path)


def test_macros_are_passed_over(tmp_path: Path) -> None:
    parts = members(a_docx()) | {"word/vbaProject.bin": b"\xd0\xcf\x11\xe0 Sub AutoOpen()"}
    assert "# Title" in markdown(zipped(parts), "docx", tmp_path)


def test_a_page_that_is_called_docx_is_read_as_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "letter.docx"
    path.write_bytes(b"<!DOCTYPE html><h1>Page</h1>")
    kind = detect_file_type(path)
    assert kind == "html"
    assert markdown(path, kind, tmp_path) == "# Page\n"


def test_what_is_no_office_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFile):
        read(PNG, "png", tmp_path)


def test_a_part_that_a_relation_promises_may_be_missing(tmp_path: Path) -> None:
    file = docx_of(paragraph("Text"), {"s": ("styles", "styles.xml"), "n": ("numbering", "no.xml")})
    assert markdown(file, "docx", tmp_path) == "Text\n"


@pytest.mark.parametrize("tag", ["pre", "code"])
def test_a_page_of_backticks_takes_no_time(tmp_path: Path, tag: str) -> None:
    start = time.monotonic()
    output = markdown(
        f"<!DOCTYPE html><p><{tag}>{'`' * 400_000}</{tag}>".encode(), "html", tmp_path
    )
    assert time.monotonic() - start < 20
    assert output.count("`") == 1_200_002


ATTRIBUTES = " ".join(f"a{number}=1" for number in range(100_000))


@pytest.mark.parametrize(
    "page",
    [
        f"<p {ATTRIBUTES}>Text",
        f"<p {ATTRIBUTES}",
        f'<p x" {ATTRIBUTES}>Text',
        f"<p x='>' {ATTRIBUTES}>Text",
        f"<!--><p {ATTRIBUTES}>Text -->",
        f'<title>a</titles><b x="</title><p {ATTRIBUTES}>"',
    ],
    ids=["plain", "open", "quote", "greater", "comment", "title"],
)
def test_an_element_with_many_attributes_is_refused_before_it_is_parsed(
    page: str, tmp_path: Path
) -> None:
    """The parser needs a minute for it: it compares each attribute with all others."""
    with pytest.raises(FileCorrupt, match="more than 500 attributes"):
        read(f"<!DOCTYPE html>{page}".encode("utf-16"), "html", tmp_path)


def test_text_that_looks_like_attributes_is_read(tmp_path: Path) -> None:
    words = "word " * 2000
    page = f"<!DOCTYPE html><!-- <p {words}> --><script>a <b {words}</script><p title='<p {words}'>"
    assert markdown(f"{page}1 < 2 {words}".encode(), "html", tmp_path).startswith("1 < 2 word")
