"""Excel workbooks as Markdown."""

from datetime import date, datetime, time
from pathlib import Path

import openpyxl
import pytest
from openpyxl.drawing.image import Image as SheetPicture
from openpyxl.worksheet.worksheet import Worksheet
from PIL import Image

from secretary.core.errors import FileTooLarge, UnsupportedFile
from secretary.documents.office.xlsx import format_value

from ..minimal_files import zipped
from ..office_files import TYPES, R, markdown, read, relations

SHEET = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


def workbook() -> tuple[openpyxl.Workbook, Worksheet]:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Figures"
    return book, sheet


def saved(book: openpyxl.Workbook, directory: Path) -> Path:
    path = directory / "made.xlsx"
    book.save(path)
    return path


def xlsx_of(sheet: str, strings: str = "") -> bytes:
    """A workbook with one sheet, given as the contents of `worksheet`."""
    return zipped(
        {
            "[Content_Types].xml": TYPES,
            "_rels/.rels": relations(main=("officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": (
                f'<workbook {SHEET} {R}><sheets><sheet name="S" r:id="s"/></sheets></workbook>'
            ).encode(),
            "xl/_rels/workbook.xml.rels": relations(
                s=("worksheet", "sheet.xml"), t=("sharedStrings", "strings.xml")
            ),
            "xl/sheet.xml": f"<worksheet {SHEET}>{sheet}</worksheet>".encode(),
            "xl/strings.xml": f"<sst {SHEET}>{strings}</sst>".encode(),
        }
    )


def test_values_are_printed_as_displayed(tmp_path: Path) -> None:
    book, sheet = workbook()
    cells: list[tuple[object, str | None]] = [
        ("text", None), (12, None), (0.1 + 0.2, None), (1234.5, '#,##0.00 "€"'), (0.125, "0.0%"),
        (date(2024, 3, 1), "dd.mm.yyyy"), (datetime(2024, 3, 1, 9, 5), "yyyy-mm-dd hh:mm"),
        (time(18, 30), "h:mm AM/PM"), (True, None), ("a|b\nc", None), ("#N/A", None),
    ]  # fmt: skip
    for column, (value, code) in enumerate(cells, 1):
        sheet.cell(1, column, value)
        if code:
            sheet.cell(1, column).number_format = code
    assert markdown(saved(book, tmp_path), "xlsx", tmp_path).splitlines()[2] == (
        "| text | 12 | 0.3 | 1,234.50 € | 12.5% | 01.03.2024 | 2024-03-01 09:05 | 6:30 PM | TRUE"
        " | a\\|b<br>c | #N/A |"
    )


@pytest.mark.parametrize(
    ("value", "code", "expected"),
    [
        (1234567.891, "#,##0.00", "1,234,567.89"),
        (-5, "0;(0)", "(5)"),
        (0, '0;-0;"none"', "none"),
        (1234567, '0.0,,"M"', "1.2M"),
        (12345.678, "0.00E+00", "1.23E+04"),
        (1.25, "# ??/??", "1 1/4"),
        (2.5, "0", "3"),
        (1.005, "0.00", "1.01"),
        (12, "00000", "00012"),
        (5551234567, "(000) 000-0000", "(555) 123-4567"),
        (150, '[>=100]"many";0', "many"),
        (3, 'General "pieces"', "3 pieces"),
        (1234, "#,##0.00 [$€-407]", "1,234.00 €"),
        (45352.75, "[$-407]dddd, d. mmmm yyyy", "Freitag, 1. März 2024"),
        (45352.75, "d-mmm-yy h:mm", "1-Mar-24 18:00"),
        (1.5, "[h]:mm:ss", "36:00:00"),
        (1, "yyyy-mm-dd", "1900-01-01"),
        (-1, "yyyy-mm-dd", "-1"),
        (1e20, "General", "1E+20"),
        (5, "0" + 250 * "%", "5"),  # more digits than are counted
        (2958465.9999, "yyyy-mm-dd hh:mm", "9999-12-31 23:59"),
        (2958465.999999999, "yyyy-mm-dd hh:mm", "2958466"),  # the year 10000, when rounded
    ],
)
def test_number_formats(value: float, code: str, expected: str) -> None:
    assert format_value(value, code) == expected


def test_a_sheet_is_a_page_and_hidden_ones_say_so(tmp_path: Path) -> None:
    book, sheet = workbook()
    sheet["A1"] = "here"
    book.create_sheet("Empty")
    secret = book.create_sheet("Secret")
    secret.sheet_state = "hidden"
    secret["A1"] = "there"
    pages = read(saved(book, tmp_path), "xlsx", tmp_path).pages
    assert [page.markdown for page in pages] == [
        "# Figures\n\n| here |\n| --- |\n",
        "# Empty\n",
        "# Secret (hidden)\n\n| there |\n| --- |\n",
    ]
    assert [page.number for page in pages] == [1, 2, 3]
    assert pages[2].facts == {"name": "Secret", "is_hidden": True}
    assert pages[0].text == "Figures\nhere\n"


def test_empty_margins_are_trimmed_and_gaps_shrink(tmp_path: Path) -> None:
    book, sheet = workbook()
    sheet["C5"], sheet["E5"], sheet["C9"] = "a", "b", "c"
    assert markdown(saved(book, tmp_path), "xlsx", tmp_path) == (
        "# Figures\n\n| a | b |\n| --- | --- |\n|  |  |\n| c |  |\n"
    )


def test_merged_cells_are_repeated_down_and_stand_once_across(tmp_path: Path) -> None:
    book, sheet = workbook()
    for row in (["Year 2024", None, None], ["North", "a", 1], [None, "b", 2], ["South", "c", 3]):
        sheet.append(row)
    sheet.merge_cells("A1:C1")
    sheet.merge_cells("A2:A3")
    assert markdown(saved(book, tmp_path), "xlsx", tmp_path).splitlines()[2:] == [
        "| Year 2024 |  |  |",
        "| --- | --- | --- |",
        "| North | a | 1 |",
        "| North | b | 2 |",
        "| South | c | 3 |",
    ]


def test_formulas_show_their_last_value_or_else_themselves(tmp_path: Path) -> None:
    rows = (
        '<sheetData><row r="1"><c r="A1"><f>1+1</f><v>2</v></c><c r="B1"><f>NOW()</f></c>'
        '<c r="C1" t="str"><f>"a"</f><v>a</v></c><c r="D1" t="e"><f>1/0</f><v>#DIV/0!</v></c></row>'
        "</sheetData>"
    )
    assert markdown(xlsx_of(rows), "xlsx", tmp_path).splitlines()[2] == (
        "| 2 | =NOW() | a | #DIV/0! |"
    )


def test_cells_that_only_look_like_numbers_are_printed_unchanged(tmp_path: Path) -> None:
    cells = "".join(f"<c><v>{value}</v></c>" for value in ("1E3", "nan", "twelve", "-0.50"))
    rows = f"<sheetData><row>{cells}</row></sheetData>"
    assert markdown(xlsx_of(rows), "xlsx", tmp_path).splitlines()[2] == (
        "| 1000 | nan | twelve | -0.50 |"
    )


def test_rich_and_inline_strings(tmp_path: Path) -> None:
    strings = "<si><r><t>ri</t></r><r><t>ch</t></r><rPh><t>sound</t></rPh></si>"
    rows = (
        '<sheetData><row><c t="s"><v>0</v></c><c t="inlineStr"><is><t>in_x000D_line</t></is></c>'
        "</row></sheetData>"
    )
    assert markdown(xlsx_of(rows, strings), "xlsx", tmp_path).splitlines()[2] == "| rich | inline |"


def test_links_and_pictures_of_a_sheet(tmp_path: Path) -> None:
    book, sheet = workbook()
    sheet["A1"] = "site"
    sheet["A1"].hyperlink = "https://example.org/a|b"
    sheet["B1"] = "x"
    Image.new("RGB", (4, 4), "red").save(tmp_path / "red.png")
    sheet.add_image(SheetPicture(str(tmp_path / "red.png")), "D4")
    page = read(saved(book, tmp_path), "xlsx", tmp_path, include_images=True).pages[0]
    assert page.markdown == (
        "# Figures\n\n| [site](https://example.org/a%7Cb) | x |\n| --- | --- |\n\n"
        "![Picture](img-001.png)\n"
    )
    assert page.pictures == ("img-001.png",)


def test_dates_may_count_from_1904(tmp_path: Path) -> None:
    book, sheet = workbook()
    book.epoch = datetime(1904, 1, 1)
    sheet["A1"] = date(2024, 3, 1)
    sheet["A1"].number_format = "yyyy-mm-dd"
    assert "| 2024-03-01 |" in markdown(saved(book, tmp_path), "xlsx", tmp_path)


def test_what_a_sheet_claims_of_its_size_is_not_believed(tmp_path: Path) -> None:
    rows = (
        '<dimension ref="A1:XFD1048576"/><sheetData><row r="1"><c r="A1"><v>1</v></c></row>'
        '<row r="1048576"><c r="XFD1048576"><v>2</v></c></row></sheetData>'
        '<mergeCells><mergeCell ref="A1:A1048576"/></mergeCells>'
    )
    assert markdown(xlsx_of(rows), "xlsx", tmp_path) == (
        "# S\n\n| 1 |  |\n| --- | --- |\n|  |  |\n| 1 | 2 |\n"
    )


def test_a_sheet_with_a_million_rows_is_refused_by_name(tmp_path: Path) -> None:
    rows = "<sheetData>" + "<row><c><v>1</v></c><c><v>2</v></c></row>" * 300_000 + "</sheetData>"
    with pytest.raises(FileTooLarge, match="more than 500,000 cells"):
        read(xlsx_of(rows), "xlsx", tmp_path, max_cells=500_000)


def test_a_sheet_that_is_sparse_but_wide_is_refused_too(tmp_path: Path) -> None:
    names = [f"{a}{b}{c}" for a in "ABC" for b in "ABCDEFGHIJ" for c in "ABCDEFGHIJ"]
    rows = "".join(
        f'<row r="{at}"><c r="{name}{at}"><v>1</v></c></row>' for at, name in enumerate(names, 1)
    )
    with pytest.raises(FileTooLarge):
        read(xlsx_of(f"<sheetData>{rows}</sheetData>"), "xlsx", tmp_path, max_cells=50_000)


def test_binary_workbooks_are_refused_with_advice(tmp_path: Path) -> None:
    file = zipped(
        {
            "[Content_Types].xml": TYPES,
            "_rels/.rels": relations(main=("officeDocument", "xl/workbook.bin")),
            "xl/workbook.bin": b"\x83\x01",
        }
    )
    with pytest.raises(UnsupportedFile, match="via_pdf"):
        read(file, "xlsx", tmp_path)
