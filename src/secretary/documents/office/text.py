"""Reads plain text: delimited tables, Markdown, source code and other text."""

import codecs
import csv
import io
import re
from pathlib import Path, PurePath

from ...core.errors import FileTooLarge
from ..pages import Page
from .blocks import Grid, OfficeDocument, Pictures
from .containers import MIB
from .markdown import build_page, fenced_code

MAX_TEXT_BYTES = 64 * MIB
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = re.compile(
    rb"""<(?:meta|\?xml)[^>]*?(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.I
)
_DECLARED_WITHIN = 4096
_TABLES = {".csv", ".tsv", ".tab"}
_LANGUAGES = {
    ".json": "json", ".xml": "xml", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".ini": "ini",
    ".py": "python", ".js": "javascript", ".ts": "typescript", ".java": "java", ".c": "c",
    ".h": "c", ".cpp": "cpp", ".cs": "csharp", ".go": "go", ".rs": "rust", ".sh": "sh",
    ".sql": "sql", ".css": "css", ".log": "",
}  # fmt: skip
#: In order of preference: commas also occur in numbers and sentences.
_DELIMITERS = ";\t|,"
_SAMPLE_LINES = 100
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def read_text(path: str, name: str | None, pictures: Pictures, max_cells: int) -> OfficeDocument:
    """Read a text file; its file name extension tells what it contains."""
    text = decode_text(read_limited(path)).replace("\r\n", "\n").replace("\r", "\n")
    suffix = PurePath(name or path).suffix.lower()
    if suffix in _TABLES:
        grid = Grid(_rows(text, suffix, max_cells))
        return OfficeDocument(pages=[build_page(1, [grid] if grid.rows else [], pictures)])
    markdown = text
    if suffix in _LANGUAGES and text.strip():
        markdown = f"{fenced_code(text, _LANGUAGES[suffix])}\n"
    return OfficeDocument(pages=[Page(number=1, text=text, markdown=markdown)])


def _rows(text: str, suffix: str, max_cells: int) -> list[list[str]]:
    delimiter = "" if suffix == ".csv" else "\t"
    if text[:4].lower() == "sep=" and text[5:6] in ("\n", ""):  # written by Excel
        delimiter, text = text[4], text[6:]
    csv.field_size_limit(len(text) + 1)
    rows: list[list[str]] = []
    width = 1
    delimiter = delimiter or detect_delimiter(text)
    for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
        if not any(cell.strip() for cell in row):
            continue
        rows.append(row)
        width = max(width, len(row))
        if len(rows) * width > max_cells:
            raise FileTooLarge(f"The table has more than {max_cells:,} cells", limit=max_cells)
    return rows


def detect_delimiter(text: str) -> str:
    """Return the delimiter that splits most lines into the same number of cells."""
    sample = _QUOTED.sub("", text[:100_000])
    lines = [line for line in sample.split("\n")[:_SAMPLE_LINES] if line.strip()]

    def consistency(delimiter: str) -> tuple[int, int]:
        counts = [line.count(delimiter) for line in lines]
        typical = max(set(counts), key=lambda count: (counts.count(count), count), default=0)
        return (counts.count(typical), typical) if typical else (0, 0)

    return max(_DELIMITERS, key=consistency)


def read_limited(path: str, max_bytes: int = MAX_TEXT_BYTES, *, noun: str = "text") -> bytes:
    if Path(path).stat().st_size > max_bytes:
        raise FileTooLarge(f"The {noun} is larger than allowed", limit_bytes=max_bytes)
    return Path(path).read_bytes()


def decode_text(data: bytes) -> str:
    """Decode by byte order mark, else as UTF-8, else as Windows-1252, which never fails."""
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def decode_markup(data: bytes) -> str:
    """Decode as HTML and XML declare it, unless a byte order mark says otherwise."""
    declaration = _DECLARED.search(data[:_DECLARED_WITHIN])
    if declaration and not data.startswith(tuple(mark for mark, _ in _BYTE_ORDER_MARKS)):
        try:
            name = codecs.lookup(declaration[1].decode("ascii")).name
            # What declares itself Latin-1 is usually Windows-1252.
            return data.decode("cp1252" if name in ("iso8859-1", "ascii") else name, "replace")
        except (LookupError, UnicodeError):
            pass
    return decode_text(data)
