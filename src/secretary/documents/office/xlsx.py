"""Reads Excel workbooks (xlsx): one page per sheet, with numbers formatted as displayed."""

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from ...core.errors import FileTooLarge, UnsupportedFile
from .blocks import (
    REPEATED_CHARACTERS,
    Block,
    Grid,
    Heading,
    OfficeDocument,
    Paragraph,
    Pictures,
    Run,
)
from .containers import Archive
from .markdown import build_page
from .ooxml import CHART, DRAWING, RELATIONSHIP, Part, chart_blocks, core_properties, main_part
from .xml_parser import Element, iter_elements, parse_bool, parse_int

S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_SHEET_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
_REFERENCE = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_SHORT_NUMBER = 15
_PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def read_xlsx(archive: Archive, pictures: Pictures, max_cells: int) -> OfficeDocument:
    workbook = main_part(archive, "xl/workbook.xml")
    if workbook.name.endswith(".bin"):
        raise UnsupportedFile("Binary workbooks (xlsb) can only be read as a PDF: use via_pdf")
    book = _Book(workbook)
    pages = []
    for number, sheet in enumerate(workbook.root.iterfind(f"{S}sheets/{S}sheet"), 1):
        name = sheet.get("name", f"Sheet {number}")
        is_hidden = sheet.get("state", "visible") != "visible"
        blocks: list[Block] = [Heading(1, [Run(name + (" (hidden)" if is_hidden else ""))])]
        part = workbook.by_id(sheet.get(f"{RELATIONSHIP}id"))
        if part is not None:
            blocks += _sheet_blocks(part, book, pictures, max_cells)
        pages.append(build_page(number, blocks, pictures, name=name, is_hidden=is_hidden))
    return OfficeDocument(pages=pages, facts=core_properties(archive))


class SheetGrid:
    """The cells of a sheet. Rows and columns start at 0; only cells with text count."""

    def __init__(self, archive: Archive, max_cells: int) -> None:
        self._archive = archive
        self._rows: defaultdict[int, dict[int, str]] = defaultdict(dict)
        self._links: dict[tuple[int, int], str] = {}
        self._merged: list[tuple[int, int, int]] = []
        self._remaining = max_cells
        self._max_cells = max_cells

    def put(self, row: int, column: int, text: str) -> None:
        self._count(1)
        self._archive.count_cell_text(len(text))
        self._rows[row][column] = text

    def merge(self, row: int, column: int, last_row: int) -> None:
        """Record that a cell spans down to a row: its text is repeated there."""
        if last_row > row:
            self._merged.append((row, column, last_row))

    def link(self, row: int, column: int, target: str) -> None:
        self._links[row, column] = target

    def grid(self) -> Grid | None:
        """Return the table without empty columns; adjacent empty rows are collapsed into one."""
        if not self._rows:
            return None
        rows = sorted(self._rows)
        for row, column, last in self._merged:
            text = self._rows.get(row, {}).get(column)
            if not text or len(text) > REPEATED_CHARACTERS:
                continue
            # Rows without other cells are skipped: the merged cell was just tall.
            for other in rows[bisect_right(rows, row) : bisect_right(rows, last)]:
                self._count(1)
                self._rows[other].setdefault(column, text)
        columns = sorted({column for cells in self._rows.values() for column in cells})
        self._remaining = self._max_cells
        self._count(len(rows) * len(columns))
        column_numbers = {column: number for number, column in enumerate(columns)}
        lines: list[list[str]] = []
        links: dict[tuple[int, int], str] = {}
        before = rows[0]
        for row in rows:
            if row > before + 1:
                lines.append([])
            before = row
            line = [""] * len(columns)
            for column, text in self._rows[row].items():
                line[column_numbers[column]] = text
                if self._links and (row, column) in self._links:
                    links[len(lines), column_numbers[column]] = self._links[row, column]
            lines.append(line)
        return Grid(lines, links)

    def _count(self, cells: int) -> None:
        self._remaining -= cells
        if self._remaining < 0:
            text = f"A sheet has more than {self._max_cells:,} cells"
            raise FileTooLarge(text, limit=self._max_cells)


class _Book:
    """What the sheets of a workbook share."""

    def __init__(self, workbook: Part) -> None:
        properties = workbook.root.find(f"{S}workbookPr")
        self.is_1904 = properties is not None and parse_bool(properties.get("date1904"))
        self.strings: list[str] = []
        if part := workbook.related("sharedStrings"):
            with part.archive.stream(part.name) as stream:
                self.strings = [_rich_text(each) for each in iter_elements(stream, [f"{S}si"])]
        self._codes = _number_formats(workbook.related("styles"))

    def number(self, text: str, style: str | None) -> str:
        code = self._codes.get(style or "0")
        if code is None and len(text) <= _SHORT_NUMBER and _PLAIN_NUMBER.fullmatch(text):
            return text
        try:
            if code is None:
                return format_general(float(text))
            return format_value(float(text), code, is_1904=self.is_1904)
        except ValueError:
            return text  # not a number: keep it as it is


def _rich_text(element: Element) -> str:
    """Join the runs of a string, without its phonetic guide (rPh)."""
    text = ""
    for child in element:
        if child.tag == f"{S}t":
            text += child.text or ""
        elif child.tag == f"{S}r":
            text += child.findtext(f"{S}t") or ""
    return _ESCAPED.sub(_unescape, text) if "_x" in text else text


def _unescape(match: re.Match[str]) -> str:
    char = chr(int(match[1], 16))
    return char if char.isprintable() or char in "\n\t" else ""


def _number_formats(part: Part | None) -> dict[str, str]:
    """Return the number format of each cell style; those that need no formatting are omitted."""
    if part is None:
        return {}
    own = {
        parse_int(each.get("numFmtId")): each.get("formatCode", "")
        for each in part.root.iterfind(f"{S}numFmts/{S}numFmt")
    }
    formats = {}
    for index, style in enumerate(part.root.iterfind(f"{S}cellXfs/{S}xf")):
        number = parse_int(style.get("numFmtId"))
        code = own.get(number) or BUILT_IN.get(number)
        if code and code.lower() != "general":
            formats[str(index)] = code
    return formats


def _sheet_blocks(part: Part, book: _Book, pictures: Pictures, max_cells: int) -> Iterator[Block]:
    cells = SheetGrid(part.archive, max_cells)
    row = -1
    drawings = []
    tags = [f"{S}{name}" for name in ("row", "mergeCell", "hyperlink", "drawing", "chartsheet")]
    is_chart = False
    with part.archive.stream(part.name) as stream:
        for element in iter_elements(stream, tags):
            match element.tag.removeprefix(S):
                case "row":
                    row = parse_int(element.get("r"), row + 2) - 1
                    column = -1
                    for cell in element:
                        if cell.tag == f"{S}c":
                            reference = cell.get("r")
                            column = _column(reference) if reference else column + 1
                            if text := _cell_text(cell, book):
                                cells.put(row, column, text)
                case "mergeCell":
                    corners = element.get("ref", "").partition(":")[::2]
                    start, end = map(_REFERENCE.fullmatch, corners)
                    if start and end:
                        cells.merge(int(start[2]) - 1, _column(start[1]), int(end[2]) - 1)
                case "hyperlink":
                    target = part.link(element.get(f"{RELATIONSHIP}id"))
                    start = _REFERENCE.match(element.get("ref", ""))
                    if target and start:
                        cells.link(int(start[2]) - 1, _column(start[1]), target)
                case "drawing":
                    drawings.append(element.get(f"{RELATIONSHIP}id"))
                case "chartsheet":
                    is_chart = True
    if (grid := cells.grid()) is not None:
        yield grid
    for identity in drawings:
        yield from _read_drawing(part.by_id(identity), pictures, has_charts=is_chart)


def _column(reference: str) -> int:
    number = 0
    for char in reference:
        if "A" <= char <= "Z":
            number = number * 26 + ord(char) - 64
        elif char != "$":
            break
    return number - 1


def _cell_text(cell: Element, book: _Book) -> str:
    value = formula = inline = None
    for child in cell:
        if child.tag == f"{S}v":
            value = child.text
        elif child.tag == f"{S}f":
            formula = child.text
        elif child.tag == f"{S}is":
            inline = child
    kind = cell.get("t")
    if inline is not None:
        return _rich_text(inline)
    if not value:
        # Programs that do not calculate store the formula only.
        return f"={formula}" if formula and kind != "str" else ""
    match kind:
        case "s":
            return book.strings[int(value)]
        case "b":
            return "TRUE" if value == "1" else "FALSE"
        case None | "n":
            return book.number(value, cell.get("s"))
        case "d":
            return str(value).replace("T00:00:00", "").replace("T", " ")
        case _:
            return str(value)


def _read_drawing(part: Part | None, pictures: Pictures, *, has_charts: bool) -> Iterator[Block]:
    """Yield pictures and text boxes, and the data of a chart sheet."""
    if part is None:
        return
    for element in part.root.iter(f"{_SHEET_DRAWING}pic", f"{_SHEET_DRAWING}txBody", CHART):
        if element.tag == f"{_SHEET_DRAWING}pic":
            yield Paragraph([part.drawn_picture(element, pictures)])
        elif element.tag == CHART:
            if has_charts:
                yield from chart_blocks(part.by_id(element.get(f"{RELATIONSHIP}id")))
        else:
            for paragraph in element.iterchildren(f"{DRAWING}p"):
                text = "".join(each.text or "" for each in paragraph.iter(f"{DRAWING}t"))
                yield Paragraph([Run(text)])


#: Formats identified by number alone. Those that depend on the country are written as ISO.
BUILT_IN = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00",
    12: "# ?/?", 13: "# ??/??", 14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy",
    18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd hh:mm",
    37: "#,##0;(#,##0)", 38: "#,##0;(#,##0)", 39: "#,##0.00;(#,##0.00)",
    40: "#,##0.00;(#,##0.00)", 41: '#,##0;-#,##0;"-"', 42: '"$"#,##0;-"$"#,##0;"-"',
    43: '#,##0.00;-#,##0.00;"-"', 44: '"$"#,##0.00;-"$"#,##0.00;"-"', 45: "mm:ss",
    46: "[h]:mm:ss", 47: "mm:ss.0", 48: "##0.0E+0", 49: "@",
}  # fmt: skip
_MAX_DECIMALS = 30
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|_.|\*.'
    r"|\[\$(?P<currency>[^\]-]*)(?:-(?P<locale>[^\]]*))?\]"
    r"|\[(?P<elapsed>h+|m+|s+)\]|\[(?P<sign>[<>=]+)(?P<limit>-?[\d.]+)\]|\[[^\]]*\]"
    r"|(?P<general>General|Standard)"
    r"|(?P<half>AM/PM|A/P)|(?P<fraction>\.0+(?=$|[^0#?]))"
    r"|(?P<exponent>E[+-](?=[0#?]))|(?P<date>y+|m+|d+|h+|s+)"
    r"|(?P<digit>[0#?])|(?P<point>\.)|(?P<comma>,)|(?P<percent>%)|(?P<slash>/)|(?P<text>@)"
    r"|(?P<literal>.)",
    re.IGNORECASE | re.DOTALL,
)
_DAYS_UNTIL_10000 = 2_958_466
_MONTHS = {
    False: "January February March April May June July August September October November December",
    True: "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
}
_WEEKDAYS = {
    False: "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    True: "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
}


class _Token(NamedTuple):
    kind: str
    text: str


class _Section(NamedTuple):
    tokens: tuple[_Token, ...]
    is_date: bool
    #: For example `>=` and 100.
    condition: tuple[str, float] | None
    is_german: bool


@lru_cache(10_000)  # a few numbers are repeated all over most sheets
def format_value(value: float, code: str, *, is_1904: bool = False) -> str:
    """Format `value`; as a plain number if the format code is not supported."""
    if not math.isfinite(value):
        return str(value)
    section, number = _choose_section(_parse_format(code), value)
    if section.is_date:
        date = _format_date(value, section, is_1904=is_1904)
        return format_general(value) if date is None else date
    try:
        return _format_number(section.tokens, number).strip()
    except InvalidOperation:  # hundreds of digits
        return format_general(value)


def format_general(value: float) -> str:
    """Format with fifteen digits, the precision of spreadsheets."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.15g}".replace("e", "E")


@lru_cache(maxsize=4096)
def _parse_format(code: str) -> tuple[_Section, ...]:
    """Parse a format code into its sections for positive, negative and zero numbers and text."""
    parts: list[list[re.Match[str]]] = [[]]
    for match in _TOKEN.finditer(code[:1000]):
        if match["literal"] == ";":
            parts.append([])
        else:
            parts[-1].append(match)
    return tuple(_section(part) for part in parts[:4])


def _section(matches: list[re.Match[str]]) -> _Section:
    tokens: list[_Token] = []
    condition = None
    is_german = False
    for match in matches:
        kind = match.lastgroup
        if match["locale"] is not None:
            is_german |= match["locale"].lower().endswith(("407", "de-de", "c07", "807"))
        if kind in ("currency", "locale"):
            tokens.append(_Token("literal", match["currency"]))
        elif kind == "limit":
            condition = (match["sign"], float(match["limit"]))
        elif kind in ("quoted", "escaped", "literal"):
            tokens.append(_Token("literal", match[kind]))
        elif kind is not None:
            tokens.append(_Token(kind, match[kind]))
    is_date = any(token.kind in ("date", "elapsed", "half") for token in tokens)
    for at, token in enumerate(tokens):
        # Only in times `.00` is a fraction of a second, otherwise it is a point and digits.
        if token.kind == "fraction" and not is_date:
            zeros = [_Token("digit", "0")] * (len(token.text) - 1)
            tokens[at : at + 1] = [_Token("point", "."), *zeros]
    return _Section(tuple(tokens), is_date, condition, is_german)


def _choose_section(parts: tuple[_Section, ...], value: float) -> tuple[_Section, float]:
    if any(part.condition for part in parts):
        for part in parts[:3]:
            sign, limit = part.condition or ("", 0.0)
            if (
                part.condition is None
                or ("<" in sign and value < limit)
                or (">" in sign and value > limit)
                or ("=" in sign and value == limit)
            ):
                return part, value
        return parts[0], value
    if value < 0 and len(parts) > 1:
        return parts[1], -value
    return parts[2 if value == 0 and len(parts) > 2 else 0], value


def _format_number(tokens: tuple[_Token, ...], value: float) -> str:
    kinds = [token.kind for token in tokens]
    if "general" in kinds or "digit" not in kinds:
        number = "general" if "general" in kinds else "text"
        return "".join(
            format_general(value) if token.kind == number else token.text for token in tokens
        )
    if "slash" in kinds and kinds.index("slash") > kinds.index("digit"):
        return _format_fraction(tokens, value)
    decimal = Decimal(repr(value)) * 100 ** kinds.count("percent")
    if "exponent" in kinds:
        return _format_scientific(tokens, decimal)
    text = _fill_digits(tokens, abs(decimal))
    return f"-{text}" if decimal < 0 and re.search("[1-9]", text) else text


def _fill_digits(tokens: tuple[_Token, ...], number: Decimal) -> str:
    """Fill the digits of a number into the placeholders of a format."""
    whole, after = _split_at_point(tokens)
    last = max(index for index, token in enumerate(tokens) if token.kind == "digit")
    # Each comma after the last digit divides by a thousand.
    commas = takewhile(lambda token: token.kind == "comma", tokens[last + 1 :])
    number /= 1000 ** len(list(commas))
    decimals = min(sum(token.kind == "digit" for token in after), _MAX_DECIMALS)
    with localcontext() as context:
        context.prec = 400
        rounded = number.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_UP)
    digits, _, decimals_text = f"{rounded:f}".partition(".")
    return _whole_part(whole, digits.lstrip("0")) + _decimal_part(after, decimals_text)


def _split_at_point(tokens: tuple[_Token, ...]) -> tuple[list[_Token], list[_Token]]:
    kinds = [token.kind for token in tokens]
    at = kinds.index("point") if "point" in kinds else len(tokens)
    return list(tokens[:at]), list(tokens[at:])


def _whole_part(tokens: list[_Token], digits: str) -> str:
    indexes = [index for index, token in enumerate(tokens) if token.kind == "digit"]
    if not indexes:
        return "".join(token.text for token in tokens if token.kind != "comma") + digits
    is_grouped = any(
        token.kind == "comma" and indexes[0] < index < indexes[-1]
        for index, token in enumerate(tokens)
    )
    parts: list[str] = []
    written = 0
    for index, token in reversed(list(enumerate(tokens))):
        if token.kind == "digit":
            # The first placeholder takes all digits that are left.
            taken = digits if index == indexes[0] else digits[-1:]
            digits = digits.removesuffix(taken)
            for digit in reversed(taken or token.text.strip("#?")):
                if is_grouped and written and written % 3 == 0:
                    parts.append(",")
                written += 1
                parts.append(digit)
        elif token.kind != "comma":
            parts.append(token.text)
    return "".join(reversed(parts))


def _decimal_part(tokens: list[_Token], digits: str) -> str:
    placeholders = [token.text for token in tokens if token.kind == "digit"]
    needed = max((at + 1 for at, sign in enumerate(placeholders) if sign == "0"), default=0)
    digits = digits[: max(needed, len(digits.rstrip("0")))]
    texts = {"comma": "", "point": "." if digits else ""}
    remaining = iter(digits)
    return "".join(
        next(remaining, "") if token.kind == "digit" else texts.get(token.kind, token.text)
        for token in tokens
    )


def _format_scientific(tokens: tuple[_Token, ...], number: Decimal) -> str:
    at = [token.kind for token in tokens].index("exponent")
    before, after = tokens[:at], tokens[at + 1 :]
    whole = max(sum(token.kind == "digit" for token in _split_at_point(before)[0]), 1)
    exponent = number.adjusted() if number else 0
    exponent -= exponent % whole
    mantissa = _fill_digits(before, abs(number).scaleb(-exponent))
    if mantissa.startswith("10") and whole == 1:  # rounded up to the next power of ten
        exponent += 1
        mantissa = _fill_digits(before, abs(number).scaleb(-exponent))
    digits = sum(token.kind == "digit" for token in after)
    sign = "-" if exponent < 0 else "+" if tokens[at].text.endswith("+") else ""
    minus = "-" if number < 0 else ""
    return f"{minus}{mantissa}E{sign}{abs(exponent):0{digits}}"


def _format_fraction(tokens: tuple[_Token, ...], value: float) -> str:
    at = [token.kind for token in tokens].index("slash")
    size = sum(token.kind == "digit" for token in tokens[at:])
    has_whole = any(token.text == " " for token in tokens[:at])
    number = Fraction(abs(value)).limit_denominator(10 ** min(max(size, 1), 9) - 1)
    sign = "-" if value < 0 else ""
    if not has_whole:
        return f"{sign}{number.numerator}/{number.denominator}"
    whole, rest = divmod(number.numerator, number.denominator)
    if not rest:
        return f"{sign}{whole}"
    return f"{sign}{f'{whole} ' if whole else ''}{rest}/{number.denominator}"


def _format_date(value: float, section: _Section, *, is_1904: bool) -> str | None:
    """Return None if the value is not a date before the year 10000."""
    if not 0 <= value < _DAYS_UNTIL_10000 - 1462 * is_1904:
        return None
    tokens = _with_minutes(section.tokens)
    decimals = max((len(token.text) - 1 for token in tokens if token.kind == "fraction"), default=0)
    has_seconds = any(
        token.kind in ("date", "elapsed") and token.text[0] in "sS" for token in tokens
    )
    days = int(value)
    milliseconds = round((value - days) * 86_400_000)
    if has_seconds and decimals < 3:
        unit = 10 ** (3 - decimals)
        milliseconds = (milliseconds + unit // 2) // unit * unit
    # Day 60 is 29 February 1900, which never existed.
    start = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 30 if days >= 60 else 31)
    try:
        moment = start + timedelta(days=days, milliseconds=milliseconds)
    except OverflowError:  # rounded up beyond the year 9999
        return None
    has_am_pm = any(token.kind == "half" for token in tokens)
    return "".join(
        _format_token(token, moment, value, has_am_pm=has_am_pm, is_german=section.is_german)
        for token in tokens
    ).strip()


def _with_minutes(tokens: tuple[_Token, ...]) -> list[_Token]:
    """`m` is a minute after an hour or before a second, otherwise a month."""
    dates = [index for index, token in enumerate(tokens) if token.kind in ("date", "elapsed")]
    result = list(tokens)
    for at, index in enumerate(dates):
        if tokens[index].kind != "date" or tokens[index].text[0] not in "mM":
            continue
        before = tokens[dates[at - 1]].text[0].lower() if at else ""
        after = tokens[dates[at + 1]].text[0].lower() if at + 1 < len(dates) else ""
        if len(tokens[index].text) <= 2 and (before == "h" or after == "s"):
            result[index] = _Token("minute", tokens[index].text)
    return result


def _format_token(
    token: _Token, moment: datetime, value: float, *, has_am_pm: bool, is_german: bool
) -> str:
    text = token.text
    match token.kind:
        case "date":
            return _date_part(text.lower(), moment, has_am_pm, is_german)
        case "minute":
            return f"{moment.minute:0{min(len(text), 2)}}"
        case "elapsed":
            seconds = round(value * 86_400)
            size = {"h": 3600, "m": 60, "s": 1}[text[0].lower()]
            return f"{seconds // size:0{len(text)}}"
        case "half":
            return "AM" if moment.hour < 12 else "PM"
        case "fraction":
            return f".{moment.microsecond:06}"[: len(text)]
        case "general" | "text":
            return ""
        case _:
            return text


def _date_part(text: str, moment: datetime, has_am_pm: bool, is_german: bool) -> str:
    size = len(text)
    match text[0]:
        case "y":
            return f"{moment.year % 100:02}" if size <= 2 else f"{moment.year:04}"
        case "m" | "d" if size <= 2:
            return f"{moment.month if text[0] == 'm' else moment.day:0{size}}"
        case "m":
            name = _MONTHS[is_german].split()[moment.month - 1]
            return name[: {3: 3, 5: 1}.get(size, len(name))]
        case "d":
            name = _WEEKDAYS[is_german].split()[moment.weekday()]
            return name[: {3: 2 if is_german else 3, 5: 1}.get(size, len(name))]
        case "h":
            hour = (moment.hour % 12 or 12) if has_am_pm else moment.hour
            return f"{hour:0{min(size, 2)}}"
        case _:
            return f"{moment.second:0{min(size, 2)}}"
