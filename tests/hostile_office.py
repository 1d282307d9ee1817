"""Malicious office files, each small on disk."""

import io
import struct
import zipfile
from collections.abc import Mapping

from .hostile_pictures import MIB, zeros
from .minimal_files import zipped
from .office_files import NAMES, ODF, TYPES, R, docx_of, odf_of, paragraph, relations

LAUGHS = "".join(f'<!ENTITY l{at} "{f"&l{at - 1};" * 10 if at else "ha"}">' for at in range(10))
BILLION_LAUGHS = f"<!DOCTYPE x [{LAUGHS}]>"
QUADRATIC = f'<!DOCTYPE x [<!ENTITY a "{"a" * 50_000}">]>'
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
PICTURE = "http://schemas.openxmlformats.org/drawingml/2006/picture"
WORD_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"
SETTINGS = f'<w:settings {NAMES}><w:attachedTemplate r:id="template"/></w:settings>'


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
    """Adds a member that is already compressed: it may be larger than our own memory."""
    marked = members(file)
    marked[name] = deflated[2:-4]
    whole = bytearray(zipped(marked))
    # Change both headers from "stored, n bytes" to "deflated, m bytes".
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


def many_parts(count: int = 20_000) -> bytes:
    return zipped(members(docx_of(paragraph("x"))) | {f"word/{at}": b"" for at in range(count)})


def overlapping_parts(count: int = 20_000, mebibytes: int = 4) -> bytes:
    """All entries of the directory point to the same member."""
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
        parts[f"word/_rels/{name}.xml.rels"] = relations(
            a=("header", "header2.xml"), b=("header", "header1.xml")
        )
        parts[f"word/{name}.xml"] = f"<w:hdr {NAMES}><w:headerReference r:id='a'/></w:hdr>".encode()
    parts["word/_rels/document.xml.rels"] = relations(
        a=("header", "header1.xml"),
        self=("officeDocument", "document.xml"),
        up=("header", "../_rels/.rels"),
    )
    return zipped(parts)


def xlsx_of(sheet: str, strings: str = "") -> bytes:
    listed = '<sheet name="S" sheetId="1" r:id="r1"/>'
    book = f'<workbook xmlns="{SHEET}" {R}><sheets>{listed}</sheets></workbook>'
    bound = relations(r1=("worksheet", "s.xml"), r2=("sharedStrings", "t.xml"))
    return squeezed(
        {
            "[Content_Types].xml": TYPES,
            "_rels/.rels": relations(main=("officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": book.encode(),
            "xl/_rels/workbook.xml.rels": bound,
            "xl/s.xml": f'<worksheet xmlns="{SHEET}">{sheet}</worksheet>'.encode(),
            "xl/t.xml": f'<sst xmlns="{SHEET}">{strings}</sst>'.encode(),
        }
    )


def rows(count: int, cell: str = "<c><v>1</v></c>") -> str:
    return f"<sheetData>{f'<row>{cell}</row>' * count}</sheetData>"


def cell_at(*references: str) -> bytes:
    cells = "".join(
        f'<row r="{"".join(filter(str.isdigit, ref))}"><c r="{ref}"><v>1</v></c></row>'
        for ref in references
    )
    return xlsx_of(f'<dimension ref="A1:XFD1048576"/><sheetData>{cells}</sheetData>')


def strings_again_and_again(letters: int = MIB, cells: int = 200) -> bytes:
    return xlsx_of(rows(cells, '<c t="s"><v>0</v></c>' * 10), f"<si><t>{'x' * letters}</t></si>")


def ods_repeated(columns: int, rows: int) -> bytes:
    return odf_of(
        "spreadsheet",
        f'<table:table table:name="a"><table:table-row table:number-rows-repeated="{rows}">'
        f'<table:table-cell table:number-columns-repeated="{columns}"><text:p>x</text:p>'
        "</table:table-cell></table:table-row></table:table>",
    )


def odt_spaces(count: int) -> bytes:
    return odf_of("text", f'<text:p>a<text:s text:c="{count}"/>b</text:p>' * 3)


def html(body: str) -> bytes:
    return f"<!DOCTYPE html><html><body>{body}</body></html>".encode()


def rtf(body: bytes) -> bytes:
    return b"{\\rtf1\\ansi " + body + b"}"


def pptx_of(slide: str) -> bytes:
    names = f'xmlns:p="{SLIDES}" xmlns:a="{DRAWING}" {R}'
    listed = '<p:sldIdLst><p:sldId id="1" r:id="r1"/></p:sldIdLst>'
    show = f"<p:presentation {names}>{listed}</p:presentation>"
    page = f"<p:sld {names}><p:cSld><p:spTree>{slide}</p:spTree></p:cSld></p:sld>"
    return squeezed(
        {
            "[Content_Types].xml": TYPES,
            "_rels/.rels": relations(main=("officeDocument", "ppt/presentation.xml")),
            "ppt/presentation.xml": show.encode(),
            "ppt/_rels/presentation.xml.rels": relations(r1=("slide", "slides/s.xml")),
            "ppt/slides/s.xml": page.encode(),
        }
    )


def shape(text: str, level: int = 0) -> str:
    return (
        '<p:sp><p:nvSpPr><p:cNvPr id="1" name="a"/><p:nvPr/></p:nvSpPr><p:txBody>'
        f'<a:p><a:pPr lvl="{level}"/><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>'
    )


def docx_that_fetches(address: str) -> bytes:
    """Every way for a document to request an external resource."""
    related = {
        "image": ("image", f"{address}/image.png"),
        "chunk": ("aFChunk", f"{address}/chunk.html"),
        "part": ("subDocument", f"{address}/part.docx"),
        "object": ("oleObject", f"{address}/object.bin"),
        "settings": ("settings", "settings.xml"),
    }
    field = (
        '<w:p><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>{} "{}"'
        '</w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>old</w:t>'
        '</w:r><w:r><w:fldChar w:fldCharType="end"/></w:r></w:p>'
    )
    body = (
        paragraph("Seen")
        + f'<w:p><w:r><w:drawing><wp:inline xmlns:wp="{WORD_DRAWING}"><wp:extent cx="99999"'
        f' cy="99999"/><a:graphic xmlns:a="{DRAWING}"><a:graphicData uri="{PICTURE}"><pic:pic'
        f' xmlns:pic="{PICTURE}"><pic:blipFill><a:blip r:link="image"/></pic:blipFill><pic:spPr/>'
        "</pic:pic></a:graphicData></a:graphic></wp:inline></w:drawing></w:r></w:p>"
        + '<w:altChunk r:id="chunk"/><w:subDoc r:id="part"/>'
        + field.format("INCLUDEPICTURE", f"{address}/field.png")
        + field.format("INCLUDETEXT", f"{address}/field.txt")
    )
    parts = members(docx_of(body, related, settings=SETTINGS))
    template = relations(template=("attachedTemplate", f"{address}/template.dotm"))
    return zipped(parts | {"word/_rels/settings.xml.rels": template})


def xlsx_that_fetches(address: str) -> bytes:
    return xlsx_of(
        '<sheetData><row><c t="inlineStr"><is><t>Seen</t></is></c><c><f>_xlfn.WEBSERVICE('
        f"&quot;{address}/formula&quot;)</f><v>1</v></c></row></sheetData>"
    )


def rtf_that_fetches(address: str) -> bytes:
    link = address.encode()
    return rtf(
        b"{\\*\\template "
        + link
        + b'/a.dot}Seen{\\field{\\*\\fldinst INCLUDEPICTURE "'
        + link
        + b'/a.png"}{\\fldrslt old}}\\par'
    )


def odt_that_acts(file: str) -> bytes:
    """Writes the file as soon as it is opened, if allowed to."""
    scripts = "http://openoffice.org/2000/script"
    library = "http://openoffice.org/2000/library"
    content = members(odf_of("text", "<text:p>Seen</text:p>"))["content.xml"].decode()
    event = (
        f'<office:scripts><office:event-listeners xmlns:script="{ODF}:script:1.0"'
        ' xmlns:dom="http://www.w3.org/2001/xml-events"><script:event-listener'
        ' script:language="ooo:script" script:event-name="dom:load" xlink:type="simple"'
        ' xlink:href="vnd.sun.star.script:Standard.Module1.Main?language=Basic&amp;'
        'location=document"/></office:event-listeners></office:scripts>'
    )
    content = content.replace("<office:automatic-styles>", event + "<office:automatic-styles>")
    code = f"Sub Main\nOpen &quot;{file}&quot; For Output As #1\nClose #1\nEnd Sub"
    basic = {
        "Basic/script-lc.xml": f'<library:libraries xmlns:library="{library}" xmlns:xlink='
        '"http://www.w3.org/1999/xlink"><library:library library:name="Standard"'
        ' library:link="false"/></library:libraries>',
        "Basic/Standard/script-lb.xml": f'<library:library xmlns:library="{library}"'
        ' library:name="Standard" library:readonly="false" library:passwordprotected="false">'
        '<library:element library:name="Module1"/></library:library>',
        "Basic/Standard/Module1.xml": f'<script:module xmlns:script="{scripts}" script:name='
        f'"Module1" script:language="StarBasic">{code}</script:module>',
    }
    entries = "".join(
        f'<manifest:file-entry manifest:full-path="{name}" manifest:media-type="text/xml"/>'
        for name in basic
    )
    parts = members(odf_of("text", ""))
    manifest = parts["META-INF/manifest.xml"].decode()
    manifest = manifest.replace("</manifest:manifest>", entries + "</manifest:manifest>")
    changed = {**basic, "content.xml": content, "META-INF/manifest.xml": manifest}
    return zipped(parts | {name: part.encode() for name, part in changed.items()})
