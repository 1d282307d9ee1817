"""A valid document of every supported kind, which tests damage or submit."""

import io
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import docx
import openpyxl
import pikepdf
import pptx
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib import colors
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import SimpleDocTemplate, Table

from .minimal_files import pdf, zipped
from .office_files import odf_of


def saved(save: Callable[[io.BytesIO], object]) -> bytes:
    file = io.BytesIO()
    save(file)
    return file.getvalue()


def words(mode: str = "L", text: str = "Forty two apples") -> Image.Image:
    picture = Image.new("L", (600, 120), 255)
    ImageDraw.Draw(picture).text((20, 30), text, fill=0, font=ImageFont.load_default(48))
    return picture.convert(mode)


def as_file(image: Image.Image, kind: str, **options: Any) -> bytes:
    return saved(lambda file: image.save(file, kind, **options))


def picture(kind: str, mode: str = "RGB", **options: Any) -> bytes:
    return as_file(words(mode), kind, **options)


def rich_pdf(**options: Any) -> bytes:
    """Compressed streams, two fonts, an image, a ruled table, a curve."""
    file = io.BytesIO()
    canvas = Canvas(file, pageCompression=1, **options)
    canvas.setTitle("Fruit")
    canvas.setFont("Helvetica-Bold", 20)
    canvas.drawString(72, 750, "Apples and pears")
    canvas.setFont("Times-Roman", 11)
    for line in range(12):
        canvas.drawString(72, 700 - 14 * line, "The quick brown fox jumps over the lazy dog.")
    canvas.drawInlineImage(words("RGB"), 72, 400, 200, 40)
    canvas.bezier(72, 300, 150, 380, 220, 220, 300, 300)
    for at in range(5):
        canvas.line(72, 200 + 15 * at, 372, 200 + 15 * at)
        canvas.line(72 + 75 * at, 200, 72 + 75 * at, 260)
    canvas.linearGradient(400, 400, 500, 500, (colors.red, colors.blue))
    canvas.showPage()
    canvas.drawString(72, 700, "Second page")
    canvas.save()
    return file.getvalue()


def table_pdf() -> bytes:
    file = io.BytesIO()
    table = Table(
        [["Name", "Price"], ["Apple", "1.20"], ["Pear", "3.00"]],
        style=[("GRID", (0, 0), (-1, -1), 1, colors.black)],
    )
    SimpleDocTemplate(file, pageCompression=0).build([table])
    return file.getvalue()


def scan_of(*pictures: Image.Image, dpi: float = 150) -> bytes:
    """A PDF that contains only images."""
    first, *others = (picture.convert("L") for picture in pictures)
    return as_file(first, "PDF", resolution=dpi, save_all=True, append_images=others)


def encrypted_pdf(revision: Literal[2, 3, 4, 6], password: str = "open") -> bytes:
    """2 and 3 are RC4 with 40 and 128 bits, 4 is AES with 128, 6 is AES with 256."""
    encryption = pikepdf.Encryption(
        user=password, owner="owner", R=revision, aes=revision > 3, metadata=revision > 3
    )
    with pikepdf.open(io.BytesIO(rich_pdf())) as document:
        return saved(lambda file: document.save(file, encryption=encryption))


def a_docx() -> bytes:
    document = docx.Document()
    document.add_heading("Fruit", 1)
    document.add_paragraph("Ripe", style="List Bullet")
    table = document.add_table(2, 2)
    table.cell(0, 0).text, table.cell(1, 1).text = "Name", "Apple"
    document.add_picture(io.BytesIO(picture("PNG")))
    return saved(document.save)


def an_xlsx() -> bytes:
    book = openpyxl.Workbook()
    for row in (("Name", "Price", "On"), ("Apple", 1.2, True), ("Pear", "=1+1", None)):
        book.active.append(row)
    book.active["B2"].number_format = "#,##0.00 [$€-407];[Red]-0%"
    book.active.merge_cells("A4:B5")
    book.create_sheet("Cheese").append(["Brie", 7])
    return saved(book.save)


def a_pptx() -> bytes:
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = "Fruit"
    slide.placeholders[1].text = "All about fruit"
    slide.shapes.add_picture(io.BytesIO(picture("PNG")), 0, 0)
    slide.shapes.add_table(2, 2, 0, 0, 99999, 99999)
    return saved(show.save)


def an_odt() -> bytes:
    return odf_of(
        "text",
        '<text:h text:outline-level="2">Fruit</text:h><text:p text:style-name="b">An<text:s'
        ' text:c="2"/>apple<text:note text:note-class="footnote"><text:note-citation>1'
        "</text:note-citation><text:note-body><text:p>Note</text:p></text:note-body></text:note>"
        "</text:p><text:list><text:list-item><text:p>Item</text:p></text:list-item></text:list>"
        '<table:table><table:table-row><table:table-cell table:number-columns-repeated="2">'
        "<text:p>Cell</text:p></table:table-cell></table:table-row></table:table>",
        styles='<style:style style:name="b" style:family="paragraph"/>',
    )


def an_ods() -> bytes:
    return odf_of(
        "spreadsheet",
        '<table:table table:name="Fruit"><table:table-row table:number-rows-repeated="2">'
        '<table:table-cell office:value-type="float" office:value="1.5"><text:p>1.5</text:p>'
        "</table:table-cell></table:table-row></table:table>",
    )


def an_epub() -> bytes:
    space = "urn:oasis:names:tc:opendocument:xmlns:container"
    root = f'<container xmlns="{space}"><rootfile full-path="p.opf"/></container>'
    return zipped(
        {
            "mimetype": b"application/epub+zip",
            "META-INF/container.xml": root.encode(),
            "p.opf": b'<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a"'
            b' href="a.html"/></manifest><spine><itemref idref="a"/></spine></package>',
            "a.html": b"<html><body><h1>Fruit</h1><p>An <b>apple</b></p></body></html>",
        }
    )


def an_rtf() -> bytes:
    return (
        rb"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset2 Symbol;}}"
        rb"{\stylesheet{\s1\outlinelevel0 heading 1;}}\pard\s1 Fruit\par\pard An \b apple\b0 \'e4"
        rb"\u8364?{\footnote Note}\par\trowd\cellx99\cellx200\intbl a\cell b\cell\row\pard"
        rb'{\field{\*\fldinst HYPERLINK "http://a/"}{\fldrslt link}}\par}'
    )


def an_html() -> bytes:
    return (
        b"<!DOCTYPE html><html><head><meta charset=utf-8><title>Fruit</title></head><body><h1>Fruit"
        b"</h1><ul><li>An <b>apple</b><ol start=3><li>x</ol></ul><table><tr><td colspan=2>a<td>b"
        b"</table><pre>code</pre><img src='data:image/png;base64,AAAA' alt=x></body></html>"
    )


#: By file name.
GOOD: dict[str, Callable[[], bytes]] = {
    name: cache(make)
    for name, make in {
        "plain.pdf": lambda: pdf("One apple", "Two pears"),
        "rich.pdf": rich_pdf,
        "table.pdf": table_pdf,
        "scan.pdf": lambda: scan_of(words()),
        "locked.pdf": lambda: encrypted_pdf(3, password=""),
        "a.docx": a_docx,
        "a.xlsx": an_xlsx,
        "a.pptx": a_pptx,
        "a.odt": an_odt,
        "a.ods": an_ods,
        "a.epub": an_epub,
        "a.rtf": an_rtf,
        "a.html": an_html,
        "a.csv": lambda: b'Name;Price\n"An apple";1,20\n',
        "a.png": lambda: picture("PNG", "RGBA"),
        "palette.png": lambda: picture("PNG", "P", transparency=0),
        "a.jpg": lambda: picture("JPEG"),
        "progressive.jpg": lambda: picture("JPEG", "CMYK", progressive=True),
        "a.tiff": lambda: picture("TIFF", compression="tiff_lzw"),
        "fax.tiff": lambda: picture("TIFF", "1", compression="group4"),
        "a.gif": lambda: picture("GIF", "P"),
        "a.webp": lambda: picture("WEBP"),
        "a.bmp": lambda: picture("BMP"),
        "a.jp2": lambda: picture("JPEG2000"),
        "a.avif": lambda: picture("AVIF"),
    }.items()
}
