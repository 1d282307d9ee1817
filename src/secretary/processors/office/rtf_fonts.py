"""How the bytes of an RTF file are letters: by the fonts they are set in."""

from dataclasses import dataclass, field

#: Code pages by the number of a font's character set.
_CHARSETS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gbk", 136: "big5",
    161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257",
    204: "cp1251", 222: "cp874", 238: "cp1250", 255: "cp437",
}  # fmt: skip
_SYMBOLS = 2
_PAGES = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850", "ansi": "cp1252"}


@dataclass(slots=True)
class Font:
    name: str = ""
    charset: int = 0
    page: int | None = None

    @property
    def is_symbols(self) -> bool:
        return self.charset == _SYMBOLS or self.name.lower().startswith(("wingdings", "webdings"))


@dataclass(slots=True)
class Fonts:
    page: str = "cp1252"
    default: int = 0
    _fonts: dict[int, Font] = field(default_factory=dict)

    def set_page(self, word: str, number: int | None) -> None:
        self.page = _known(f"cp{number}") if word == "ansicpg" else _PAGES[word]

    def define(self, number: int) -> Font:
        return self._fonts.setdefault(number, Font())

    def font(self, number: int) -> Font:
        return self._fonts.get(number) or Font()

    def page_of(self, number: int) -> str:
        font = self.font(number)
        if font.page:
            return _known(f"cp{font.page}")
        return _CHARSETS.get(font.charset, self.page)


def _known(page: str) -> str:
    try:
        "".encode(page)
    except LookupError:
        return "utf-8" if page == "cp65001" else "cp1252"
    return page
