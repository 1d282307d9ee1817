"""JSON objects out of what a model says, which is often more than that."""

import json
import re
from typing import Any, NoReturn

FENCED = re.compile(r"```[ \t]*\w*[ \t]*\n(.*?)```", re.DOTALL)
#: So many places are tried where an object might begin; nobody means more than one.
BEGINNINGS = 100


class Unfit(Exception):
    """The answer is not what was asked for. The faults are sentences for the model."""

    def __init__(self, *faults: str) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


def read_object(text: str) -> dict[str, Any]:
    """The object that is all of the text, in a fence or among words; of several the longest."""
    for candidate in (text, *FENCED.findall(text)):
        try:
            value = _loads(candidate.strip())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
        raise Unfit("it is not a JSON object")
    return _longest(text)


def _loads(text: str) -> Any:
    value = DECODER.decode(text)
    _check(value)
    return value


def _longest(text: str) -> dict[str, Any]:
    found: dict[str, Any] | None = None
    size = position = 0
    for _ in range(BEGINNINGS):
        begin = text.find("{", position)
        if begin < 0:
            break
        try:
            value, position = DECODER.raw_decode(text, begin)
            _check(value)
        except (ValueError, RecursionError):
            position = max(begin, position) + 1
            continue
        if position - begin > size:
            found, size = value, position - begin
    if found is None:
        raise Unfit("it is not valid JSON")
    return found


def _check(value: Any) -> None:
    """Halves of characters and endless numbers could not be written down again."""
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Unfit(f"the field {twice[:100]!r} is there more than once")
    return fields


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_refuse)
