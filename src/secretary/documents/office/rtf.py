"""Reads Rich Text Format (rtf) as one page."""

import re
from copy import copy
from pathlib import Path

from ...core.errors import FileTooLarge
from .blocks import PLAIN, Note, NoteMark, Picture, Run, signed
from .containers import MIB
from .conventions import link_of, lowered, raised, symbol, text_of
from .document import OfficeDocument, Pictures, page_of
from .rtf_parser import (
    KNOWN,
    LEFT_OUT,
    Fonts,
    Group,
    ParagraphForm,
    RowForms,
    RtfFlow,
    Token,
    format_characters,
    format_paragraph,
    tokens,
)

MAX_RTF_BYTES = 256 * MIB
_SIGNS = {
    "tab": "\t", "line": "\n", "emdash": "—", "endash": "\u2013", "bullet": "•",
    "lquote": "\u2018", "rquote": "\u2019", "ldblquote": "“", "rdblquote": "”",
    "emspace": " ", "enspace": " ", "qmspace": " ", "lbr": "\n",
}  # fmt: skip
_SYMBOLS = {"~": "\u00a0", "_": "-", "\\": "\\", "{": "{", "}": "}"}
_FACTS = {"title": "title", "author": "author", "subject": "subject", "keywords": "keywords"}
_EQUATION = re.compile(r"m[A-Za-z]+")
_EQUATION_FORM = re.compile(r"m[A-Za-z]+Pr")


def read_rtf(path: str, pictures: Pictures) -> OfficeDocument:
    if Path(path).stat().st_size > MAX_RTF_BYTES:
        raise FileTooLarge("The RTF file is larger than allowed", limit_bytes=MAX_RTF_BYTES)
    reader = _Reader(pictures)
    reader.read(Path(path).read_bytes())
    blocks = reader.flow.blocks()
    return OfficeDocument(pages=[page_of(1, blocks, pictures)], facts=reader.facts)


class _Reader:
    def __init__(self, pictures: Pictures) -> None:
        self.flow = RtfFlow()
        self.facts: dict[str, str] = {}
        self._pictures = pictures
        self._fonts = Fonts()
        self._styles: dict[int, str] = {}
        self._groups = [Group(self.flow)]
        self._rows = RowForms()
        self._bytes: list[bytes] = []
        self._skipped = 0
        self._high = 0
        self._is_optional = False
        self._link: str | None = None
        self._author = ""
        self._counts = {"": 0, "e": 0, "c": 0}

    @property
    def _group(self) -> Group:
        return self._groups[-1]

    def read(self, data: bytes) -> None:
        for token in tokens(data):
            if token.kind not in ("hex", "text"):
                self._flush()
            match token.kind:
                case "{":
                    inner = copy(self._group)
                    inner.at_end = None
                    self._groups.append(inner)
                case "}":
                    group = self._groups.pop()
                    if group.at_end is not None:
                        group.at_end(group)
                case "word":
                    self._word(token)
                case "symbol":
                    self._symbol(token.value)
                case "binary":
                    self._picture_data(token.data.hex())
                case _:
                    self._characters(token)
        self._flush()

    def _characters(self, token: Token) -> None:
        data = token.data
        if self._skipped:
            kept = data[self._skipped :]
            self._skipped = max(self._skipped - len(data), 0)
            data = kept
        if self._group.role == "pict":
            self._picture_data(data.decode("latin-1"))
        elif self._group.role != "ignored":
            self._bytes.append(data)

    def _flush(self) -> None:
        """Decode the collected bytes at once: characters may have two."""
        if not self._bytes:
            return
        data, self._bytes = b"".join(self._bytes), []
        font = self._fonts.font(self._group.font)
        if font.is_symbols and self._group.role != "fonttbl":
            self._write("".join(symbol(font.name or "symbol", byte) for byte in data))
        else:
            self._write(data.decode(self._fonts.page_of(self._group.font), "replace"))

    def _write(self, text: str) -> None:
        group = self._group
        if group.text is not None:
            group.text.append(text)
        elif group.role == "label":
            group.flow.label(text)
        elif group.role == "text" and not group.is_hidden:
            if group.script:
                text = raised(text) if group.script == "super" else lowered(text)
            style = group.style._replace(link=self._link) if self._link else group.style
            group.flow.add(Run(text, style))

    def _symbol(self, sign: str) -> None:
        if sign == "*":
            self._is_optional = True
        elif sign in ("\n", "\r"):
            self._end_paragraph()
        elif sign in _SYMBOLS:
            self._write(_SYMBOLS[sign])

    def _word(self, token: Token) -> None:
        word, number = token.value, token.number
        is_optional, self._is_optional = self._is_optional, False
        if self._group.role == "ignored":
            return
        is_unknown = is_optional and word not in KNOWN and not _EQUATION.fullmatch(word)
        if is_unknown or word in LEFT_OUT or _EQUATION_FORM.fullmatch(word):
            self._group.role = "ignored"
        elif word == "u":
            self._unicode(number or 0)
        elif word in _SIGNS:
            self._write(_SIGNS[word])
        elif not (
            self._destination(word)
            or self._rows.take(word, number, self._group.flow, self._group.form)
            or self._paragraph(word, number)
        ):
            self._setting(word, number)
            format_paragraph(self._group, word, number, self._styles)
            format_characters(self._group, word, number, self._styles)

    def _unicode(self, number: int) -> None:
        code = number % 65536
        self._skipped = self._group.fallback
        if 0xD800 <= code < 0xDC00:
            self._high = code
            return
        if 0xDC00 <= code < 0xE000 and self._high:
            code = 0x10000 + ((self._high - 0xD800) << 10) + code - 0xDC00
        self._high = 0
        if 0xF000 <= code <= 0xF0FF:
            font = self._fonts.font(self._group.font)
            name = font.name if font.is_symbols else "symbol"
            # In a list label, any unknown symbol is a bullet.
            self._write(symbol(name, code) or ("•" if self._group.role == "label" else ""))
        elif not 0xD800 <= code < 0xE000:
            self._write(chr(code))

    def _destination(self, word: str) -> bool:
        group = self._group
        match word:
            case "fonttbl" | "stylesheet":
                group.role = word
            case "pict":
                group.role, group.text, group.at_end = "pict", [], self._end_picture
            case "listtext" | "pntext":
                group.role = "label"
            case "fldinst":
                group.text, group.at_end = [], self._end_instruction
            case "field":
                before = self._link
                group.at_end = lambda _: setattr(self, "_link", before)
            case "footnote" | "annotation" | "shptxt":
                self._open_aside(word)
            case "atnauthor":
                group.text, group.at_end = [], self._end_author
            case "info":
                group.role = "info"
            case _ if word in _FACTS and group.role == "info":
                group.text = []
                group.at_end = lambda ended: self._end_fact(_FACTS[word], ended)
            case _:
                return False
        return True

    def _end_fact(self, name: str, group: Group) -> None:
        text = "".join(group.text or ()).strip()
        if text:
            self.facts[name] = text

    def _end_instruction(self, group: Group) -> None:
        instruction = "".join(group.text or ())
        self._link = link_of(instruction) or self._link
        if text := text_of(instruction):
            self._write(text)

    def _end_author(self, group: Group) -> None:
        self._author = "".join(group.text or ())

    def _open_aside(self, word: str) -> None:
        """Start a note or a text box, which has paragraphs of its own."""
        group = self._group
        outer, group.flow = group.flow, RtfFlow()
        group.style, group.form = PLAIN, ParagraphForm()

        def end(ended: Group) -> None:
            blocks = ended.flow.blocks()
            if word == "shptxt":
                for block in blocks:
                    outer.put(block)
                return
            prefix = "c" if word == "annotation" else "e" if ended.is_endnote else ""
            self._counts[prefix] += 1
            label = f"{prefix}{self._counts[prefix]}"
            outer.add(NoteMark(label))
            outer.put(Note(label, signed(blocks, self._author) if prefix == "c" else blocks))

        group.at_end = end

    def _picture_data(self, digits: str) -> None:
        if self._group.role == "pict" and self._group.text is not None:
            self._group.text.append(digits)

    def _end_picture(self, group: Group) -> None:
        if not self._pictures.are_kept:
            return
        digits = re.sub(r"[^0-9A-Fa-f]", "", "".join(group.text or ()))
        name = self._pictures.keep(bytes.fromhex(digits[: len(digits) // 2 * 2]))
        if name is not None:
            group.flow.add(Picture("", name))

    def _paragraph(self, word: str, number: int | None) -> bool:
        group = self._group
        match word:
            case "par" | "sect" | "page":
                self._end_paragraph()
            case "s" if group.role == "stylesheet":
                self._name_style(number or 0)
            case "cs" if group.role == "stylesheet":
                self._name_style(-(number or 0))
            case _:
                return False
        return True

    def _name_style(self, number: int) -> None:
        group = self._group
        group.text = []

        def end(ended: Group) -> None:
            name = "".join(ended.text or ()).strip().rstrip(";").split(",")[0]
            self._styles[number] = name.strip()

        group.at_end = end

    def _end_paragraph(self) -> None:
        if self._group.role == "text" and self._group.text is None:
            self._group.flow.end_paragraph(self._group.form)
        else:
            self._write(" ")

    def _setting(self, word: str, number: int | None) -> None:
        """Apply font and encoding settings."""
        group = self._group
        match word:
            case "f":
                self._font(number or 0)
            case "fcharset" if group.role == "fonttbl":
                self._fonts.define(group.font).charset = number or 0
            case "cpg" if group.role == "fonttbl":
                self._fonts.define(group.font).page = number
            case "deff":
                self._fonts.default = group.font = number or 0
            case "plain":
                group.font = self._fonts.default
            case "ansicpg" | "mac" | "pc" | "pca" | "ansi":
                self._fonts.set_page(word, number)

    def _font(self, number: int) -> None:
        group = self._group
        group.font = number
        if group.role == "fonttbl":
            group.text = []

            def end(ended: Group) -> None:
                self._fonts.define(number).name = "".join(ended.text or ()).strip().rstrip(";")

            group.at_end = end
