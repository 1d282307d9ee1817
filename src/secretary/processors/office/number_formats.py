"""Numbers as a spreadsheet shows them."""

import math
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from fractions import Fraction

from .format_codes import Section, Token, sections
from .serial_dates import shown_date

#: Formats that are known by their number alone. Those that differ by country are written as ISO.
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


def shown(value: float, code: str, *, is_1904: bool = False) -> str:
    """`value` in the format `code`; as a plain number where the format is beyond us."""
    if not math.isfinite(value):
        return str(value)
    section, number = _chosen(sections(code), value)
    if section.is_date:
        date = shown_date(value, section, is_1904=is_1904)
        return general(value) if date is None else date
    if section.is_general:
        return "".join(
            general(number) if token.kind == "general" else token.text for token in section.tokens
        )
    try:
        return _shown_number(section, number).strip()
    except InvalidOperation:  # hundreds of digits
        return general(value)


def general(value: float) -> str:
    """Fifteen digits, as many as a spreadsheet keeps."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    text = f"{value:.15g}"
    return text.replace("e", "E")


def _chosen(parts: tuple[Section, ...], value: float) -> tuple[Section, float]:
    conditional = [part for part in parts if part.condition]
    if conditional:
        for part in parts[:3]:
            if part.condition is None or _holds(part.condition, value):
                return part, value
        return parts[0], value
    if value < 0 and len(parts) > 1:
        return parts[1], -value
    if value == 0 and len(parts) > 2:
        return parts[2], value
    return parts[0], value


def _holds(condition: tuple[str, float], value: float) -> bool:
    sign, limit = condition
    if sign == "<>":
        return value != limit
    return (
        ("<" in sign and value < limit)
        or (">" in sign and value > limit)
        or ("=" in sign and value == limit)
    )


def _shown_number(section: Section, value: float) -> str:
    tokens = section.tokens
    kinds = [token.kind for token in tokens]
    if "digit" not in kinds:
        return "".join(
            general(value) if token.kind == "text" else token.text
            for token in tokens
            if token.kind in ("literal", "text", "percent", "slash", "point", "comma")
        )
    if "slash" in kinds and kinds.index("slash") > kinds.index("digit"):
        return _shown_fraction(tokens, value)
    number = Decimal(repr(value)) * 100 ** kinds.count("percent")
    if "exponent" in kinds:
        return _shown_power(tokens, number)
    sign = "-" if number < 0 else ""
    text = _filled(tokens, abs(number))
    has_digits = any(char in "123456789" for char in text)
    return (sign if has_digits else "") + text


def _filled(tokens: tuple[Token, ...], number: Decimal) -> str:
    """The digits of a number put into the places that a format has for them."""
    whole, after = _split(tokens)
    number /= 1000 ** _scaling(tokens)
    decimals = min(sum(token.kind == "digit" for token in after), _MAX_DECIMALS)
    with localcontext() as context:
        context.prec = 400
        rounded = number.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_UP)
    digits, _, behind = f"{rounded:f}".partition(".")
    return _whole_part(whole, digits.lstrip("0")) + _decimal_part(after, behind)


def _split(tokens: tuple[Token, ...]) -> tuple[list[Token], list[Token]]:
    kinds = [token.kind for token in tokens]
    at = kinds.index("point") if "point" in kinds else len(tokens)
    return list(tokens[:at]), list(tokens[at:])


def _scaling(tokens: tuple[Token, ...]) -> int:
    """Commas behind the last digit: each stands for a thousand."""
    last = max(place for place, token in enumerate(tokens) if token.kind == "digit")
    count = 0
    for token in tokens[last + 1 :]:
        if token.kind != "comma":
            break
        count += 1
    return count


def _whole_part(tokens: list[Token], digits: str) -> str:
    places = [place for place, token in enumerate(tokens) if token.kind == "digit"]
    if not places:
        return "".join(token.text for token in tokens if token.kind != "comma") + digits
    is_grouped = any(
        token.kind == "comma" and places[0] < place < places[-1]
        for place, token in enumerate(tokens)
    )
    parts: list[str] = []
    written = 0
    for place in range(len(tokens) - 1, -1, -1):
        token = tokens[place]
        if token.kind == "digit":
            take = len(digits) if place == places[0] else 1
            for _ in range(max(take, 1)):
                digit = digits[-1:] or ("0" if token.text == "0" else "")
                digits = digits[:-1]
                if digit and is_grouped and written and written % 3 == 0:
                    parts.append(",")
                written += bool(digit)
                parts.append(digit)
        elif token.kind != "comma":
            parts.append(token.text)
    return "".join(reversed(parts))


def _decimal_part(tokens: list[Token], digits: str) -> str:
    places = [token.text for token in tokens if token.kind == "digit"]
    needed = max((at + 1 for at, sign in enumerate(places) if sign == "0"), default=0)
    kept = max(needed, len(digits.rstrip("0")))
    at = 0
    parts: list[str] = []
    for token in tokens:
        if token.kind == "digit":
            parts.append(digits[at : at + 1] if at < kept else "")
            at += 1
        elif token.kind == "point":
            parts.append("." if kept else "")
        elif token.kind != "comma":
            parts.append(token.text)
    return "".join(parts)


def _shown_power(tokens: tuple[Token, ...], number: Decimal) -> str:
    at = [token.kind for token in tokens].index("exponent")
    before, after = tokens[:at], tokens[at + 1 :]
    whole = max(sum(token.kind == "digit" for token in _split(before)[0]), 1)
    exponent = number.adjusted() if number else 0
    exponent -= exponent % whole if whole > 1 else 0
    mantissa = _filled(before, abs(number).scaleb(-exponent))
    if mantissa.startswith("10") and whole == 1:  # rounded up to the next power
        exponent += 1
        mantissa = _filled(before, abs(number).scaleb(-exponent))
    digits = sum(token.kind == "digit" for token in after)
    sign = "-" if exponent < 0 else "+" if tokens[at].text.endswith("+") else ""
    minus = "-" if number < 0 else ""
    return f"{minus}{mantissa}E{sign}{abs(exponent):0{digits}}"


def _shown_fraction(tokens: tuple[Token, ...], value: float) -> str:
    at = [token.kind for token in tokens].index("slash")
    size = sum(token.kind == "digit" for token in tokens[at:])
    has_whole = any(token.text == " " for token in tokens[:at])
    number = Fraction(abs(value)).limit_denominator(10 ** min(max(size, 1), 9) - 1)
    sign = "-" if value < 0 else ""
    whole, rest = divmod(number.numerator, number.denominator) if has_whole else (0, 0)
    if not has_whole:
        return f"{sign}{number.numerator}/{number.denominator}"
    if not rest:
        return f"{sign}{whole}"
    return f"{sign}{f'{whole} ' if whole else ''}{rest}/{number.denominator}"
