"""Conventions of office programs: list numbering, symbol fonts, style names and fields."""

import re
from collections.abc import Sequence
from functools import lru_cache

from .blocks import Block, Code, Inlines, Paragraph, Quote, plain_text

_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"),
    (50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
_MAX_NUMBER = 10_000
#: Numbering types of HTML and OpenDocument, as OOXML calls them.
NUMBER_FORMATS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_DECIMAL = re.compile(r"\(?(\d+)[.)]?")


def decimal_marker(label: str) -> str | None:
    """Return `(3)` or `3` as a Markdown list marker, `3.`; None if the label is more."""
    match = _DECIMAL.fullmatch(label)
    return f"{match[1]}." if match else None


def format_number(number: int, form: str) -> str:
    """Format a number; unknown OOXML formats are written as decimals."""
    if not 0 < number < _MAX_NUMBER:
        return str(number)
    text = f"{number:02}" if form == "decimalZero" else str(number)
    if form in ("lowerLetter", "upperLetter"):
        # After z comes aa, then bb, as in Word.
        times, letter = divmod(number - 1, 26)
        text = chr(ord("a") + letter) * (times + 1)
    elif form in ("lowerRoman", "upperRoman"):
        text = ""
        for size, digits in _ROMAN:
            times, number = divmod(number, size)
            text += digits * times
    return text.upper() if form.startswith("upper") else text


_PLAIN = "0123456789+-=()n"
_SCRIPTS = {
    "sup": dict(zip(_PLAIN, "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ", strict=True)),
    "sub": dict(zip(_PLAIN, "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₙ", strict=True)),
}


def set_script(text: str, position: str) -> str:
    """Write text in superscript or subscript characters if the name of its position starts with
    `sup` or `sub`, and if all characters can be written so."""
    table = _SCRIPTS.get(position[:3], {})
    return "".join(table[c] for c in text) if all(c in table for c in text) else text


#: Wingdings and similar fonts, by the last byte of the code.
_WINGDINGS = {
    0x6C: "●", 0x6E: "■", 0x6F: "☐", 0x71: "☐", 0x72: "☐", 0x9F: "•", 0xA7: "▪", 0xA8: "☐",
    0xD8: "➢", 0xDF: "←", 0xE0: "→", 0xE8: "➔", 0xF0: "⇨", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒",
    0xFE: "☑", 0x4A: "☺", 0x4C: "☹", 0x52: "☒",
}  # fmt: skip
_SYMBOL = {
    **dict(zip(b"abcdefghiklmnopqrstuwxyz", "αβχδεφγηικλμνοπθρστυωξψζ", strict=True)),
    **dict(zip(b"ABCDEFGHIKLMNOPQRSTUWXYZ", "ΑΒΧΔΕΦΓΗΙΚΛΜΝΟΠΘΡΣΤΥΩΞΨΖ", strict=True)),
    0xA3: "≤", 0xA5: "∞", 0xAB: "↔", 0xAC: "←", 0xAE: "→", 0xB0: "°", 0xB1: "±", 0xB3: "≥",
    0xB4: "\u00d7", 0xB7: "•", 0xB8: "÷", 0xB9: "≠", 0xBB: "≈", 0xD6: "√", 0xE5: "∑", 0xF2: "∫",
    0xDE: "⇒", 0xDB: "⇔", 0x22: "∀", 0x24: "∃", 0xCE: "∈", 0xC7: "∩", 0xC8: "\u222a",
}  # fmt: skip


def symbol_character(font: str, code: int) -> str:
    """Return an empty string for an unknown symbol: a wrong one would be worse."""
    byte = code & 0xFF if 0xF000 <= code <= 0xF0FF else code
    font = font.lower()
    if "wingdings" in font or "webdings" in font:
        return _WINGDINGS.get(byte, "")
    if font == "symbol":
        return _SYMBOL.get(byte, chr(byte) if 0x20 <= byte < 0x40 else "")
    return "" if 0xE000 <= code <= 0xF8FF or not 0 < code < 0xD800 else chr(code)


_HEADING = re.compile(
    r"(?:heading|überschrift|ueberschrift|titre|título|titolo|titulo|kop|rubrik|overskrift"
    r"|otsikko|nagłówek|nadpis|заголовок|标题|見出し|제목)\s*([1-9])",
    re.IGNORECASE,
)
_TITLE = re.compile(r"title|titel|titre|título|titolo|tytuł|название", re.IGNORECASE)
_CONTENTS = re.compile(r"(?:toc|verzeichnis|contents|table of contents)\s*([1-9])", re.IGNORECASE)
_CODE = re.compile(
    r"(?:.*\b)?(?:code|source ?code|source text|listing|quelltext|quellcode|verbatim.*"
    r"|html preformatted|html vorformatiert|preformatted text|plain text|macro text"
    r"|html (?:code|keyboard|typewriter|sample)|html schreibmaschine)(?: char| zchn| block)?",
    re.IGNORECASE,
)
#: Word marks the levels of these by indentation alone.
_LIST = re.compile(
    r"(?:list (?:bullet|number|continue)|aufzählungszeichen|listennummer|listenfortsetzung)"
    r"\s*([2-5])",
    re.IGNORECASE,
)
_QUOTE = re.compile(
    r"(?:intense |intensives )?(?:quote|quotations?|zitat|citation|cita|block ?text|block quote)",
    re.IGNORECASE,
)


def heading_level(name: str) -> int | None:
    match = _HEADING.fullmatch(name)
    return int(match[1]) if match else 1 if _TITLE.fullmatch(name) else None


def toc_level(name: str) -> int | None:
    """Return the level of an entry in a table of contents."""
    match = _CONTENTS.fullmatch(name)
    return int(match[1]) if match else None


def list_style_depth(name: str) -> int:
    match = _LIST.fullmatch(name)
    return int(match[1]) - 1 if match else 0


@lru_cache(1000)
def is_code_style(name: str) -> bool:
    return bool(_CODE.fullmatch(name))


def is_quote_style(name: str) -> bool:
    return bool(_QUOTE.fullmatch(name))


def styled_paragraph(names: Sequence[str], content: Inlines) -> Block:
    """Return a paragraph in a style, given the names of that style and its base styles."""
    if any(map(is_code_style, names)):
        return Code(plain_text(content))
    paragraph = Paragraph(content)
    return Quote([paragraph]) if any(map(is_quote_style, names)) else paragraph


_HYPERLINK = re.compile(r'\s*HYPERLINK\s+(?:"([^"]*)"|(?!\\)(\S+))', re.IGNORECASE)
_BUTTON = re.compile(r"\s*MACROBUTTON\s+\S+\s+(.+)", re.IGNORECASE | re.DOTALL)


def hyperlink_target(instruction: str) -> str | None:
    match = _HYPERLINK.match(instruction)
    return (match[1] or match[2]) if match else None


def button_text(instruction: str) -> str | None:
    """Return the text of a field without a result that shows its instruction: `[click here]`."""
    match = _BUTTON.match(instruction)
    return match[1].strip() if match else None
