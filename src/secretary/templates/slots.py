"""Finds `{{name}}` and `{{name|instruction}}` in a text."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from .template import Fault

LONGEST_NAME = 64
NAME = re.compile(r"[^\W\d][\w-]*")
SHOWN = 40


@dataclass(frozen=True, slots=True)
class Mark:
    """One `{{…}}`. Without an instruction it is a place for a value that is known otherwise."""

    name: str
    instruction: str | None
    line: int
    #: How many lines it goes on for.
    breaks: int


def find_marks(text: str, line: int, complain: Callable[[Fault], None]) -> list[str | Mark]:
    """The text with its marks apart; `line` is the number of its first line."""
    pieces: list[str | Mark] = []
    position = 0
    while (start := text.find("{{", position)) >= 0:
        line += text.count("\n", position, start)
        pieces.append(text[position:start])
        end = _end(text, start + 2)
        if end is None:
            shown = _shown(text[start:])
            complain(Fault(line, f"`{shown}` is not closed: there is no `}}}}` behind it"))
            return pieces
        inner = text[start + 2 : end]
        breaks = inner.count("\n")
        if mark := _read(inner, line, breaks, complain):
            pieces.append(mark)
        line += breaks
        position = end + 2
    pieces.append(text[position:])
    return pieces


def _end(text: str, start: int) -> int | None:
    """Where the `}}` is. An instruction may end with a brace of its own: `{{a|{b, c}}}`."""
    end = text.find("}}", start)
    if end < 0:
        return None
    open_braces = text.count("{", start, end) - text.count("}", start, end)
    while open_braces > 0 and text.startswith("}}}", end):
        open_braces -= 1
        end += 1
    return end


def _read(inner: str, line: int, breaks: int, complain: Callable[[Fault], None]) -> Mark | None:
    name, bar, instruction = inner.partition("|")
    name, instruction = name.strip(), instruction.strip()
    shown = _shown("{{" + inner + "}}")
    if "{{" in inner:
        complain(Fault(line, f"`{shown}` has another `{{{{` inside; is a `}}}}` missing?"))
    elif not NAME.fullmatch(name):
        text = "a name begins with a letter and has letters, digits, `_` and `-` only"
        complain(Fault(line, f"`{shown}` has no usable name: {text}"))
    elif len(name) > LONGEST_NAME:
        complain(Fault(line, f"`{shown}`: the name is longer than {LONGEST_NAME} characters"))
    elif bar and not instruction:
        text = f"write `{{{{{name}}}}}` for a value from the context"
        complain(Fault(line, f"`{shown}` has no instruction behind the `|`; {text}"))
    else:
        return Mark(name, instruction if bar else None, line, breaks)
    return None


def _shown(text: str) -> str:
    text = " ".join(text[: 4 * SHOWN].split())
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
