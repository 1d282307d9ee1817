"""Numbers of lists in the ways that office programs write them."""

import re

_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"),
    (50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
_LARGEST = 10_000
#: As HTML and OpenDocument call them, in the words of OOXML.
LETTERED = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_COUNTED = re.compile(r"\(?(\d+)[.)]?")


def counted(label: str) -> str | None:
    """`(3)` and `3` as Markdown counts, `3.`; None for what is more than a number."""
    found = _COUNTED.fullmatch(label)
    return f"{found[1]}." if found else None


def numeral(number: int, form: str) -> str:
    """`form` in the words of OOXML; those that are not known are written as decimals."""
    if not 0 < number < _LARGEST:
        return str(number)
    match form:
        case "lowerLetter":
            return _letters(number)
        case "upperLetter":
            return _letters(number).upper()
        case "lowerRoman":
            return _roman(number)
        case "upperRoman":
            return _roman(number).upper()
        case "decimalZero":
            return f"{number:02}"
        case _:
            return str(number)


def _letters(number: int) -> str:
    """After z comes aa, then bb, as in Word."""
    times, letter = divmod(number - 1, 26)
    return chr(ord("a") + letter) * (times + 1)


def _roman(number: int) -> str:
    text = ""
    for size, digits in _ROMAN:
        times, number = divmod(number, size)
        text += digits * times
    return text
