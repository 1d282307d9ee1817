"""Reads the front matter of a template: YAML whose values may be slots."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from .template import Entry, Fault, Json, Mark, Mixed, Slot

#: Deeper than any front matter, and far from where Python gives up.
DEEPEST = 50

#: Few things are not texts: what YAML 1.1 also makes of `no`, `10:30` or `2026-01-31` is a
#: surprise more often than it is meant.
WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}
INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
FLOAT = re.compile(r"[-+]?[0-9]{1,15}\.[0-9]{1,15}(?:[eE][-+]?[0-9]{1,2})?")


class NotPlain(yaml.MarkedYAMLError):
    """YAML, but more than a front matter may have."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # as the library wants it
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise NotPlain(problem="`&` and `*` cannot be used", problem_mark=event.start_mark)
        if getattr(event, "tag", None) not in (None, "!"):
            raise NotPlain(problem="`!` cannot be used", problem_mark=event.start_mark)
        self.depth += 1
        if self.depth > DEEPEST:
            raise NotPlain(problem="it is nested too deep", problem_mark=event.start_mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def compose(text: str) -> yaml.Node | None:
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def data_of(node: yaml.Node, text_of: Callable[[str], Any]) -> Any:
    """As JSON has it; `text_of` makes what it likes of a text."""
    match node:
        case yaml.MappingNode():
            return {_key(key): data_of(value, text_of) for key, value in node.value}
        case yaml.SequenceNode():
            return [data_of(item, text_of) for item in node.value]
        case yaml.ScalarNode():
            return text_of(node.value) if node.style else _scalar(node.value, text_of)
        case _:
            raise NotPlain(problem="it is neither a value nor a list nor a mapping")


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise NotPlain(problem="a key must be a single word or text", problem_mark=node.start_mark)
    return str(node.value)


def _scalar(text: str, text_of: Callable[[str], Any]) -> Any:
    if text in WORDS:
        return WORDS[text]
    if INTEGER.fullmatch(text):
        return int(text)
    return float(text) if FLOAT.fullmatch(text) else text_of(text)


#: Readers need not look further for the colon behind a key.
LONGEST_KEY = 1000

#: Of a text without quotes: to look through a very long one takes much memory.
LONGEST_BARE = 1000

#: What needs no quotes beyond doubt; a colon only inside a word, as in a URL.
BARE = re.compile(r"[^\W\d_](?:[\w ./,;()+&@=-]|:(?=[\w/])|(?<=\S)#(?=\w))*")
#: In whatever case they are something else than a text, to some reader.
YAML_TEXT_WORDS = frozenset(
    {"true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"}
)

#: Not to be written as they are: controls, breaks and marks that a reader refuses or changes.
HARMFUL = re.compile('[\x00-\x1f\x7f-\x9f"\\\\\u2028\u2029\ufeff\ufffe\uffff]')
NOT_IN_A_BLOCK = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
NAMED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class UnwritableKey(ValueError):
    """A key that is too long."""


def written(key: str, value: Json) -> str:
    """One entry of a mapping, without the break at its end."""
    return "\n".join(_yaml_text_entry(key, value, ""))


def _yaml_text_entry(key: str, value: Json, pad: str) -> Iterator[str]:
    name = _text(key)
    if len(name) > LONGEST_KEY:
        raise UnwritableKey(f"The key {key[:40]}… is too long for a front matter")
    if isinstance(value, dict | list) and value:
        yield f"{pad}{name}:"
        yield from _inner(value, pad + "  ")
    else:
        yield f"{pad}{name}: {_yaml_text_scalar(value, pad)}"


def _inner(value: dict[str, Json] | list[Json], pad: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _yaml_text_entry(key, item, pad)
        return
    for item in value:
        if isinstance(item, dict | list) and item:
            lines = _inner(item, pad + "  ")
            yield f"{pad}- {next(lines).removeprefix(pad + '  ')}"
            yield from lines
        else:
            yield f"{pad}- {_yaml_text_scalar(item, pad)}"


def _yaml_text_scalar(value: Any, pad: str) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _float(value)
        case str():
            return _block(value, pad) or _text(value)
        case _:
            return "[]" if isinstance(value, list) else "{}"


def _float(value: float) -> str:
    """`1e+20` is a text to an old reader: there must be a point in it."""
    text = repr(value)
    return text if "." in text or "e" not in text else text.replace("e", ".0e")


def _text(text: str) -> str:
    return text if _needs_no_quotes(text) else '"' + HARMFUL.sub(_escaped, text) + '"'


def _needs_no_quotes(text: str) -> bool:
    if len(text) > LONGEST_BARE or not BARE.fullmatch(text):
        return False
    return text[-1] != " " and text.lower() not in YAML_TEXT_WORDS


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    return NAMED.get(char) or (f"\\x{ord(char):02x}" if char < "\xff" else f"\\u{ord(char):04x}")


def _block(text: str, pad: str) -> str | None:
    """Several lines as they are, where nothing in them could be misread."""
    lines = text.split("\n")
    ends = len(lines) > 1 and not lines[-1]
    if ends:
        lines.pop()
    if len(lines) < 2 or not lines[-1] or lines[0][:1] in ("", " ", "\t"):
        return None
    if NOT_IN_A_BLOCK.search(text) or any(line and not line.strip() for line in lines):
        return None
    body = "\n".join(f"{pad}  {line}" if line else "" for line in lines)
    return f"{'|' if ends else '|-'}\n{body}"


#: An entry begins where a line begins; quotes round its key are YAML's affair.
BEGINNING = re.compile(r"""("[^"\n]*"|'[^'\n]*'|[^\s#'"&!*?|>%@`{}\[\]-][^\n]*?):(?=\s|$)""")
GOES_ON = re.compile(r"[ \t#\]}]|-(?:\s|$)|$")
COMMENT = re.compile(r"\s*(?:#|$)")
#: Behind an entry; an indented `#` may be a part of its text.
NEEDLESS = re.compile(r"#|\s*$")
#: Who begins so means YAML, not a text.
STRUCTURE = frozenset("[{|>&*!%@`")

Complain = Callable[[Fault], None]


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of one entry, and the numbers they have in the template."""

    key: str
    lines: list[str]
    numbers: list[int]


class _Tokens:
    """Slots, for the time in which the front matter is read as YAML. The words that stand for
    them come from the text itself, so nothing in it can look like one."""

    def __init__(self, pieces: Iterable[str | Mark]) -> None:
        self._pieces = list(pieces)
        whole = "\0".join(piece if isinstance(piece, str) else "" for piece in self._pieces)
        digest = hashlib.sha256(whole.encode()).hexdigest()[:24]
        self._marks = [piece for piece in self._pieces if isinstance(piece, Mark)]
        self._pattern = re.compile(f"slot{digest}n([0-9]+)z")
        self._word = f"slot{digest}n%dz"

    def lines(self, number: int) -> tuple[list[str], list[int]]:
        """The text with words for slots; a slot has one line, however many it had."""
        parts: list[str] = []
        extra: dict[int, int] = {}
        count = row = 0
        for piece in self._pieces:
            if isinstance(piece, str):
                parts.append(piece)
                row += piece.count("\n")
            else:
                parts.append(self._word % count)
                extra[row] = extra.get(row, 0) + piece.breaks
                count += 1
        lines = "".join(parts).split("\n")
        numbers = []
        for row in range(len(lines)):
            numbers.append(number)
            number += 1 + extra.get(row, 0)
        return lines, numbers

    def are_in(self, text: str) -> bool:
        return bool(self._pattern.search(text))

    def resolved(self, text: str) -> Any:
        """A text, a slot, or both. Blanks round a slot come from how YAML is written."""
        if found := self._pattern.fullmatch(text.strip()):
            return self._slot(int(found[1]))
        parts = self._pattern.split(text)
        if len(parts) == 1:
            return text
        pieces = [
            self._slot(int(part)) if odd % 2 else part for odd, part in enumerate(parts) if part
        ]
        return Mixed(tuple(pieces))

    def _slot(self, index: int) -> Slot:
        return Slot(self._marks[index].name)


def read_entries(
    pieces: Sequence[str | Mark], number: int, *, complain: Complain, warn: Complain
) -> list[Entry]:
    """`number` is that of the first line."""
    tokens = _Tokens(pieces)
    entries: dict[str, Entry] = {}
    for block in _blocks(*tokens.lines(number), complain):
        entry = _entry(block, tokens, complain, warn)
        if entry is None:
            continue
        if entry.key in entries:
            first = entries[entry.key].line
            complain(Fault(entry.line, f"`{entry.key}` was there before, in line {first}"))
        entries.setdefault(entry.key, entry)
    return list(entries.values())


def _blocks(lines: list[str], numbers: list[int], complain: Complain) -> list[_Lines]:
    blocks: list[_Lines] = []
    for line, number in zip(lines, numbers, strict=True):
        if GOES_ON.match(line):
            if blocks:
                blocks[-1].lines.append(line)
                blocks[-1].numbers.append(number)
            elif not COMMENT.match(line):
                complain(Fault(number, "The front matter must begin with `key: value`"))
        elif found := BEGINNING.match(line):
            blocks.append(_Lines(found[1].rstrip(), [line], [number]))
        else:
            complain(Fault(number, "This line of the front matter is not `key: value`"))
    for block in blocks:
        while NEEDLESS.match(block.lines[-1]):  # belongs to the next entry, or to nobody
            block.lines.pop()
    return blocks


def _entry(block: _Lines, tokens: _Tokens, complain: Complain, warn: Complain) -> Entry | None:
    text, line = "\n".join(block.lines), block.numbers[0]
    if tokens.are_in(block.key):
        complain(Fault(line, "A key of the front matter cannot be a slot"))
        return None
    try:
        key, value = _pair(text, tokens)
    except RecursionError:
        complain(Fault(line, f"`{block.key}` is nested too deep"))
        return None
    except yaml.YAMLError as error:
        return _not_yaml(error, block, tokens, complain, warn)
    if len(key) > LONGEST_KEY // 2:
        complain(Fault(line, "The key is too long"))
        return None
    is_constant = not tokens.are_in(text) and _can_be_copied(text)
    return Entry(key, value, line, text if is_constant else None)


def _can_be_copied(text: str) -> bool:
    """Older readers stumble over a day like 2026-02-30, or a key like `<<`."""
    try:
        yaml.safe_load(text)
    except (yaml.YAMLError, ArithmeticError, TypeError, ValueError, RecursionError):
        return False
    return True


def _pair(text: str, tokens: _Tokens) -> tuple[str, Any]:
    node = compose(text + "\n")
    if not isinstance(node, yaml.MappingNode) or len(node.value) != 1 or node.flow_style:
        raise yaml.YAMLError("it is not one key with one value")
    ((key, value),) = data_of(node, tokens.resolved).items()
    return key, value


def _not_yaml(
    error: yaml.YAMLError, block: _Lines, tokens: _Tokens, complain: Complain, warn: Complain
) -> Entry | None:
    """A single line that is no YAML was meant as the text it is: `note: Important: read it`."""
    line = block.numbers[0]
    if len(block.lines) == 1 and block.key[0] not in "\"'":
        text = block.lines[0][BEGINNING.match(block.lines[0]).end() :].strip()  # type: ignore[union-attr]
        if text and text[0] not in STRUCTURE:
            warn(Fault(line, f"The value of `{block.key}` is taken as text; put it in quotes"))
            return Entry(block.key, tokens.resolved(text), line)
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    if mark is not None:
        line = block.numbers[min(mark.line, len(block.numbers) - 1)]
    complain(Fault(line, f"`{block.key}` cannot be read as YAML: {problem or error}"))
    return None
