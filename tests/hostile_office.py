"""Office files that want to do harm, each small on disk."""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping

from .documents import zipped
from .hostile_pictures import MIB, zeros
from .office_files import NAMES, TYPES, docx_of, odf_of, paragraph, relations

LAUGHS = "".join(f'<!ENTITY l{at} "{f"&l{at - 1};" * 10 if at else "ha"}">' for at in range(10))
BILLION_LAUGHS = f"<!DOCTYPE x [{LAUGHS}]>"
QUADRATIC = f'<!DOCTYPE x [<!ENTITY a "{"a" * 50_000}">]>'
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"


def squeezed(members: Mapping[str, bytes]) -> bytes:
    return zipped(members, zipfile.ZIP_DEFLATED)


def members(file: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(file: bytes) -> bytes:
    return squeezed(members(file))


def docx_with_doctype(doctype: str, use: str) -> bytes:
    parts = members(docx_of(paragraph(use)))
    parts["word/document.xml"] = doctype.encode() + parts["word/document.xml"]
    return squeezed(parts)


def odt_with_doctype(doctype: str, use: str) -> bytes:
    parts = members(odf_of("text", f"<text:p>{use}</text:p>"))
    parts["content.xml"] = doctype.encode() + parts["content.xml"]
    return zipped(parts)


def with_raw_member(file: bytes, name: str, deflated: bytes, size: int) -> bytes:
    """Puts in a member that is packed already: it may be larger than our own memory."""
    marked = members(file)
    marked[name] = deflated[2:-4]
    whole = bytearray(zipped(marked))
    # Both headers say "stored, so many bytes": now they say "deflated, to so many".
    for mark, method, sizes in ((b"PK\x03\x04", 8, 18), (b"PK\x01\x02", 10, 20)):
        at = 0
        while (at := whole.find(mark, at)) >= 0:
            start = at + (30 if mark == b"PK\x03\x04" else 46)
            if whole[start : start + len(name)] == name.encode():
                whole[at + method : at + method + 2] = struct.pack("<H", 8)
                whole[at + sizes + 4 : at + sizes + 8] = struct.pack("<I", size)
            at += 4
    return bytes(whole)


def huge_part(mebibytes: int = 2048) -> bytes:
    size = mebibytes * MIB
    return with_raw_member(docx_of(paragraph("x")), "word/document.xml", zeros(size), size)


def nested_zips(depth: int = 5) -> bytes:
    inner = squeezed({"a": bytes(MIB)})
    for _ in range(depth):
        inner = squeezed({f"{at}.zip": inner for at in range(16)})
    return squeezed(members(docx_of(paragraph("The outside"))) | {"word/media/42.zip": inner})


def many_parts(count: int = 60_000) -> bytes:
    return zipped(members(docx_of(paragraph("x"))) | {f"word/{at}": b"" for at in range(count)})


def overlapping_parts(count: int = 20_000, mebibytes: int = 4) -> bytes:
    """All entries of the contents point to the same member."""
    related = {f"i{at}": ("image", f"m/{at}") for at in range(count)}
    file = docx_of(paragraph("x"), related)
    data = zeros(mebibytes * MIB)
    whole = with_raw_member(file, "word/m/0", data, mebibytes * MIB)
    end = whole.rindex(b"PK\x05\x06")
    start = struct.unpack("<I", whole[end + 16 : end + 20])[0]
    contents = whole[start:end]
    at = contents.index(b"word/m/0") - 46
    entry = contents[at : at + 46]
    more = b"".join(
        entry[:28] + struct.pack("<H", len(name)) + entry[30:] + name
        for name in (b"word/m/%d" % number for number in range(1, count))
    )
    total = min(len(members(file)) + count, 0xFFFF)
    tail = whole[end : end + 8] + struct.pack(
        "<HHIIH", total, total, len(contents + more), start, 0
    )
    return whole[:start] + contents + more + tail


def names_that_lead_out() -> bytes:
    return zipped(
        members(docx_of(paragraph("Inside")))
        | {"../../../../../../tmp/evil": b"x", "/tmp/evil": b"x", "word/../../evil": b"x"}
    )


def related_in_circles() -> bytes:
    parts = members(docx_of(paragraph("Text")))
    for name in ("header1", "header2"):
        parts[f"word/_rels/{name}.xml.rels"] = relations(a=("header", "header2.xml"), b=("header", "header1.xml"))  # fmt: skip
        parts[f"word/{name}.xml"] = f"<w:hdr {NAMES}><w:headerReference r:id='a'/></w:hdr>".encode()
    parts["word/_rels/document.xml.rels"] = relations(
        a=("header", "header1.xml"), self=("officeDocument", "document.xml"), up=("header", "../_rels/.rels"),
    )  # fmt: skip
    return zipped(parts)


def xlsx_of(sheet: str, strings: str = "", styles: str = "", sheets: int = 1) -> bytes:
    listed = "".join(f'<sheet name="S{at}" sheetId="{at}" r:id="r1"/>' for at in range(sheets))
    r = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    return squeezed(
        {
            "[Content_Types].xml": TYPES,
            "_rels/.rels": relations(main=("officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": f'<workbook xmlns="{SHEET}" {r}><sheets>{listed}</sheets></workbook>'.encode(),
            "xl/_rels/workbook.xml.rels": relations(
                r1=("worksheet", "s.xml"), r2=("sharedStrings", "t.xml"), r3=("styles", "y.xml")
            ),
            "xl/s.xml": f'<worksheet xmlns="{SHEET}">{sheet}</worksheet>'.encode(),
            "xl/t.xml": f'<sst xmlns="{SHEET}">{strings}</sst>'.encode(),
            "xl/y.xml": f'<styleSheet xmlns="{SHEET}">{styles}</styleSheet>'.encode(),
        }
    )


def rows(count: int, cell: str = "<c><v>1</v></c>") -> str:
    return f"<sheetData>{f'<row>{cell}</row>' * count}</sheetData>"


def cell_at(*references: str) -> bytes:
    cells = "".join(f'<row r="{"".join(filter(str.isdigit, ref))}"><c r="{ref}"><v>1</v></c></row>' for ref in references)  # fmt: skip
    return xlsx_of(f'<dimension ref="A1:XFD1048576"/><sheetData>{cells}</sheetData>')


def merged_everywhere() -> bytes:
    merges = '<mergeCell ref="A1:XFD1048576"/>' * 1000
    return xlsx_of(f"{rows(1)}<mergeCells>{merges}</mergeCells>")


def strings_again_and_again(letters: int = MIB, cells: int = 20_000) -> bytes:
    return xlsx_of(rows(cells, '<c t="s"><v>0</v></c>' * 10), f"<si><t>{'x' * letters}</t></si>")


def formats_without_end() -> bytes:
    code = "0" * 250_000 + "." + "0" * 250_000
    styles = f'<numFmts><numFmt numFmtId="200" formatCode="{code}"/></numFmts><cellXfs><xf numFmtId="200"/></cellXfs>'  # fmt: skip
    return xlsx_of(rows(3000, '<c s="0"><v>1e300</v></c>'), styles=styles)


def numbered(start: int, kind: str, items: int) -> bytes:
    numbering = (
        f'<w:numbering {NAMES}><w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0">'
        f'<w:start w:val="{start}"/><w:numFmt w:val="{kind}"/><w:lvlText w:val="{"%1." * 50}"/></w:lvl>'
        '</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num></w:numbering>'
    )
    item = paragraph("x", '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>')
    return docx_of(item * items, numbering=numbering)


def list_level(level: int) -> bytes:
    return docx_of(
        paragraph("x", f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="1"/></w:numPr>')
    )


def spanned_table(span: int, rows: int = 5) -> bytes:
    cell = f'<w:tc><w:tcPr><w:gridSpan w:val="{span}"/></w:tcPr>{paragraph("x")}</w:tc>'
    return docx_of(f"<w:tbl>{f'<w:tr>{cell * 2}</w:tr>' * rows}</w:tbl>")


def ods_repeated(columns: int, rows: int) -> bytes:
    return odf_of(
        "spreadsheet",
        f'<table:table table:name="a"><table:table-row table:number-rows-repeated="{rows}">'
        f'<table:table-cell table:number-columns-repeated="{columns}"><text:p>x</text:p>'
        "</table:table-cell></table:table-row></table:table>",
    )


def odt_spaces(count: int) -> bytes:
    return odf_of("text", f'<text:p>a<text:s text:c="{count}"/>b</text:p>' * 3)


def odt_level(level: int) -> bytes:
    return odf_of("text", f'<text:h text:outline-level="{level}">Title</text:h>')


def html(body: str) -> bytes:
    return f"<!DOCTYPE html><html><body>{body}</body></html>".encode()


def rtf(body: bytes) -> bytes:
    return b"{\\rtf1\\ansi " + body + b"}"


def epub_spine(times: int, letters: int = 100_000) -> bytes:
    """One chapter, many times over."""
    space = "urn:oasis:names:tc:opendocument:xmlns:container"
    refers = '<itemref idref="a"/>' * times
    parts = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": f'<container xmlns="{space}"><rootfile full-path="p.opf"/></container>',
        "p.opf": '<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a"'
        f' href="a.html"/></manifest><spine>{refers}</spine></package>',
    }  # fmt: skip
    return zipped(
        {name: part.encode() for name, part in parts.items()} | {"a.html": html("x " * letters)}
    )


def pptx_of(slide: str, times: int = 1) -> bytes:
    r = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    names = f'xmlns:p="{SLIDES}" xmlns:a="{DRAWING}" {r}'
    listed = "".join(f'<p:sldId id="{at}" r:id="r1"/>' for at in range(times))
    return squeezed(
        {
            "[Content_Types].xml": TYPES,
            "_rels/.rels": relations(main=("officeDocument", "ppt/presentation.xml")),
            "ppt/presentation.xml": f"<p:presentation {names}><p:sldIdLst>{listed}</p:sldIdLst></p:presentation>".encode(),
            "ppt/_rels/presentation.xml.rels": relations(r1=("slide", "slides/s.xml")),
            "ppt/slides/s.xml": f"<p:sld {names}><p:cSld><p:spTree>{slide}</p:spTree></p:cSld></p:sld>".encode(),
        }
    )


def shape(text: str, level: int = 0) -> str:
    return (
        '<p:sp><p:nvSpPr><p:cNvPr id="1" name="a"/><p:nvPr/></p:nvSpPr><p:txBody>'
        f'<a:p><a:pPr lvl="{level}"/><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>'
    )
