"""Characters of fonts that have no letters, as Unicode."""

#: In Wingdings and its like, by the last byte of the code.
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


def symbol(font: str, code: int) -> str:
    """Empty for a sign we do not know: a wrong one would be worse."""
    byte = code & 0xFF if 0xF000 <= code <= 0xF0FF else code
    font = font.lower()
    if "wingdings" in font or "webdings" in font:
        return _WINGDINGS.get(byte, "")
    if font == "symbol":
        return _SYMBOL.get(byte, chr(byte) if 0x20 <= byte < 0x40 else "")
    return "" if 0xE000 <= code <= 0xF8FF or not 0 < code < 0xD800 else chr(code)
