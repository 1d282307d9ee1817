"""Dates and times that a spreadsheet counts in days."""

from datetime import datetime, timedelta

from .format_codes import Section, Token

_DAYS_UNTIL_10000 = 2_958_466
_MONTHS = {
    False: "January February March April May June July August September October November December",
    True: "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
}
_WEEKDAYS = {
    False: "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    True: "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
}


def shown_date(value: float, section: Section, *, is_1904: bool) -> str | None:
    """None for what is no date: before the first day, or after the year 9999."""
    if not 0 <= value < _DAYS_UNTIL_10000 - 1462 * is_1904:
        return None
    tokens = _with_minutes(section.tokens)
    decimals = max((len(token.text) - 1 for token in tokens if token.kind == "fraction"), default=0)
    has_seconds = any(
        token.kind in ("date", "elapsed") and token.text[0] in "sS" for token in tokens
    )
    try:
        moment = _moment(value, is_1904, decimals if has_seconds else None)
    except OverflowError:  # rounded, it is later than that
        return None
    has_halves = any(token.kind == "half" for token in tokens)
    return "".join(
        _written(token, moment, value, has_halves=has_halves, is_german=section.is_german)
        for token in tokens
    ).strip()


def _moment(value: float, is_1904: bool, decimals: int | None) -> datetime:
    days = int(value)
    milliseconds = round((value - days) * 86_400_000)
    if decimals is not None and decimals < 3:
        unit = 10 ** (3 - decimals)
        milliseconds = (milliseconds + unit // 2) // unit * unit
    # The day 60 is a 29 February 1900 that never was.
    start = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 30 if days >= 60 else 31)
    return start + timedelta(days=days, milliseconds=milliseconds)


def _with_minutes(tokens: tuple[Token, ...]) -> list[Token]:
    """`m` is a minute behind an hour and before a second, else a month."""
    dates = [place for place, token in enumerate(tokens) if token.kind in ("date", "elapsed")]
    told = list(tokens)
    for at, place in enumerate(dates):
        if tokens[place].kind != "date" or tokens[place].text[0] not in "mM":
            continue
        before = tokens[dates[at - 1]].text[0].lower() if at else ""
        after = tokens[dates[at + 1]].text[0].lower() if at + 1 < len(dates) else ""
        if len(tokens[place].text) <= 2 and (before == "h" or after == "s"):
            told[place] = Token("minute", tokens[place].text)
    return told


def _written(
    token: Token, moment: datetime, value: float, *, has_halves: bool, is_german: bool
) -> str:
    text = token.text
    match token.kind:
        case "date":
            return _date_part(text.lower(), moment, has_halves, is_german)
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


def _date_part(text: str, moment: datetime, has_halves: bool, is_german: bool) -> str:
    size = len(text)
    match text[0]:
        case "y":
            return f"{moment.year % 100:02}" if size <= 2 else f"{moment.year:04}"
        case "m":
            return _named(moment.month, _MONTHS[is_german].split()[moment.month - 1], size)
        case "d":
            return _named(
                moment.day, _WEEKDAYS[is_german].split()[moment.weekday()], size, is_german
            )
        case "h":
            hour = (moment.hour % 12 or 12) if has_halves else moment.hour
            return f"{hour:0{min(size, 2)}}"
        case _:
            return f"{moment.second:0{min(size, 2)}}"


def _named(number: int, name: str, size: int, is_short: bool = False) -> str:
    match size:
        case 1 | 2:
            return f"{number:0{size}}"
        case 3:
            return name[: 2 if is_short else 3]
        case 5:
            return name[0]
        case _:
            return name
