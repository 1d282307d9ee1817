"""What there is in a Markdown text, in the form in which it is compared."""

import re
import unicodedata
from dataclasses import dataclass
from html import unescape

Grid = tuple[tuple[str, ...], ...]
FENCE = re.compile(r"^\s*(```|~~~)")
RULE = re.compile(r"^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")
#: Also in an entry of a list, as Markdown allows.
HEADING = re.compile(r"^\s{0,3}(?:(?:[-*+>]|\d+[.)])\s+)*(#{1,6})\s+(.*?)\s*#*\s*$")
UNDERLINE = re.compile(r"^\s{0,3}(=+|-+)\s*$")
CELL = re.compile(r"(?<!\\)\|")
HTML_TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL | re.IGNORECASE)
HTML_ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL | re.IGNORECASE)
HTML_CELL = re.compile(r"<t[dh]\b[^>]*>(.*?)</t[dh]>", re.DOTALL | re.IGNORECASE)
HTML_HEADING = re.compile(r"<h([1-6])\b[^>]*>(.*?)</h\1>", re.DOTALL | re.IGNORECASE)
WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Found:
    words: list[str]
    #: Level and text of each.
    headings: list[tuple[int, str]]
    tables: list[Grid]


def found(markdown: str) -> Found:
    return Found(_words(markdown), _headings(markdown), _tables(markdown))


def _words(markdown: str) -> list[str]:
    lines = [
        line for line in markdown.splitlines() if not FENCE.match(line) and not RULE.match(line)
    ]
    return WORD.findall(_bare("\n".join(lines)))


def _headings(markdown: str) -> list[tuple[int, str]]:
    headings = [(int(level), _key(text)) for level, text in HTML_HEADING.findall(markdown)]
    inside, before = False, ""
    for line in markdown.splitlines():
        if FENCE.match(line):
            inside = not inside
        elif not inside and (match := HEADING.match(line)):
            headings.append((len(match[1]), _key(match[2])))
        elif not inside and (match := UNDERLINE.match(line)) and before and "|" not in before:
            headings.append((1 if match[1][0] == "=" else 2, _key(before)))
        before = line.strip()
    return [(level, text) for level, text in headings if text]


def _tables(markdown: str) -> list[Grid]:
    tables = []
    for text in HTML_TABLE.findall(markdown):
        rows = [HTML_CELL.findall(row) for row in HTML_ROW.findall(text)]
        tables.append(_grid(rows))
    lines = markdown.splitlines()
    place = 0
    while place + 1 < len(lines):
        if "|" in lines[place] and "|" in lines[place + 1] and RULE.match(lines[place + 1]):
            rows = [_cells(lines[place])]
            place += 2
            while place < len(lines) and "|" in lines[place]:
                rows.append(_cells(lines[place]))
                place += 1
            tables.append(_grid(rows))
        else:
            place += 1
    return [table for table in tables if any(any(row) for row in table)]


def _cells(line: str) -> list[str]:
    return CELL.split(line.strip().removeprefix("|").removesuffix("|"))


def _grid(rows: list[list[str]]) -> Grid:
    """Rows and columns without any text are left out: they are a matter of form."""
    width = max((len(row) for row in rows), default=0)
    keyed = [[_key(cell) for cell in row] + [""] * (width - len(row)) for row in rows]
    columns = [n for n in range(width) if any(row[n] for row in keyed)]
    return tuple(tuple(row[n] for n in columns) for row in keyed if any(row))


def _key(text: str) -> str:
    """Letters and digits only: spaces, marks and the breaks of lines are a matter of form."""
    return "".join(WORD.findall(_bare(text)))


def _bare(text: str) -> str:
    """Without Markdown's and HTML's own signs, ligatures resolved, in small letters."""
    text = re.sub(r"<!--.*?-->", " ", text, flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"</?[a-zA-Z][^>]*>", " ", text)
    text = re.sub(r"\\([^\w\s])", r"\1", unescape(text)).replace("*", "").replace("`", "")
    return unicodedata.normalize("NFKC", text.replace("\u00ad", "")).lower()
