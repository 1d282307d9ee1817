"""Front matter: parses the YAML of a template, whose values may be slots, and writes YAML."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import yaml

from ...core.errors import InvalidParameters
from .template import Entry, Json, Placeholder, Report, Slot

#: Deeper than any real front matter, and far from Python's recursion limit.
MAX_DEPTH = 50

#: Scalars other than these and numbers are texts: that YAML 1.1 converts `no`, `10:30` or
#: `2026-01-31` is rarely intended.
CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}
INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
FLOAT = re.compile(r"[-+]?[0-9]{1,15}\.[0-9]{1,15}(?:[eE][-+]?[0-9]{1,2})?")


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # as PyYAML requires
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        problem = None
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            problem = "`&` and `*` cannot be used"
        elif getattr(event, "tag", None) not in (None, "!"):
            problem = "`!` cannot be used"
        elif self.depth >= MAX_DEPTH:
            problem = "it is nested too deeply"
        if problem is not None:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _data_of(node: yaml.Node, text_of: Callable[[str], Any]) -> Any:
    """The node as JSON; `text_of` converts texts."""
    match node:
        case yaml.MappingNode():
            pairs = {}
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    text = "a key must be a single word or text"
                    raise yaml.MarkedYAMLError(problem=text, problem_mark=key.start_mark)
                pairs[str(key.value)] = _data_of(value, text_of)
            return pairs
        case yaml.SequenceNode():
            return [_data_of(item, text_of) for item in node.value]
        case yaml.ScalarNode(value=text):
            if node.style:  # quoted, or a block
                return text_of(text)
            if text in CONSTANTS:
                return CONSTANTS[text]
            if INTEGER.fullmatch(text):
                return int(text)
            return float(text) if FLOAT.fullmatch(text) else text_of(text)
        case _:
            raise yaml.MarkedYAMLError(problem="it is neither a value nor a list nor a mapping")


#: YAML parsers need not support longer keys.
MAX_KEY = 1000
#: Longer texts are quoted without checking them, which takes much memory.
MAX_UNQUOTED = 1000

#: Texts that need no quotes; a colon only inside a word, as in a URL.
UNQUOTED = re.compile(r"[^\W\d_](?:[\w ./,;()+&@=-]|:(?=[\w/])|(?<=\S)#(?=\w))*")
#: Texts that some parsers read as another type, in any case.
YAML_KEYWORDS = frozenset(
    {"true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"}
)

#: Characters that must be escaped: parsers reject or change them.
ESCAPED = re.compile('[\x00-\x1f\x7f-\x9f"\\\\\u2028\u2029\ufeff\ufffe\uffff]')
NAMED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def dump_entry(key: str, value: Json) -> str:
    """One entry on one line that is YAML and, for clients that read line by line, has a value that
    is JSON or a text without quotes."""
    if isinstance(value, dict | list):
        return f"{_key(key, _text(key))}: {_dump_json(value)}"
    plain = _text(value) if isinstance(value, str) else _dump_json(value)
    return f"{_key(key, _text(key))}: {plain}"


def _key(key: str, written: str) -> str:
    if len(written) > MAX_KEY:
        raise InvalidParameters(f"The key {key[:40]}… is too long for a front matter")
    return written


def _dump_json(value: Json) -> str:
    match value:
        case dict():
            pairs = ((_key(key, _quoted(key)), item) for key, item in value.items())
            return "{" + ", ".join(f"{key}: {_dump_json(item)}" for key, item in pairs) + "}"
        case list():
            return "[" + ", ".join(map(_dump_json, value)) + "]"
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():  # older parsers read `1e+20` as a text: a decimal point is required
            text = repr(value)
            return text if "." in text or "e" not in text else text.replace("e", ".0e")
        case int():
            return str(value)
        case _:
            return _quoted(value)


def _text(text: str) -> str:
    if (
        len(text) <= MAX_UNQUOTED
        and UNQUOTED.fullmatch(text)
        and text[-1] != " "
        and text.lower() not in YAML_KEYWORDS
    ):
        return text
    return _quoted(text)


def _quoted(text: str) -> str:
    """A string that JSON and YAML parsers read alike."""
    return '"' + ESCAPED.sub(_escaped, text) + '"'


def _escaped(match: re.Match[str]) -> str:
    char = match[0]
    return NAMED.get(char) or f"\\u{ord(char):04x}"


#: The beginning of an entry; its key may be quoted.
ENTRY_START = re.compile(r"""("[^"\n]*"|'[^'\n]*'|[^\s#'"&!*?|>%@`{}\[\]-][^\n]*?):(?=\s|$)""")
CONTINUATION = re.compile(r"[ \t#\]}]|-(?:\s|$)|$")
COMMENT = re.compile(r"\s*(?:#|$)")
#: Lines after an entry; an indented `#` may be part of its text.
TRAILING = re.compile(r"#|\s*$")
#: A block with settings of the client application, which no document has.
CLIENT_KEY = "creation"
#: A value that begins so is meant as YAML, not as text.
STRUCTURE = frozenset("[{|>&*!%@`")


class _Tokens:
    """Replaces slots by words while the front matter is parsed as YAML. The words contain a
    digest of the text, so that nothing in it can look like one."""

    def __init__(self, pieces: Sequence[str | Placeholder]) -> None:
        self._pieces = pieces
        self._names = [piece.name for piece in pieces if isinstance(piece, Placeholder)]
        whole = "\0".join(piece if isinstance(piece, str) else "" for piece in pieces)
        digest = hashlib.sha256(whole.encode()).hexdigest()[:24]
        self.pattern = re.compile(f"slot{digest}n([0-9]+)z")
        self._word = f"slot{digest}n%dz"

    def lines(self, number: int) -> Iterator[tuple[str, int]]:
        """The lines with a word for each slot, and the number of each in the template."""
        parts: list[str] = []
        breaks: Counter[int] = Counter()
        numbers, row = count(), 0
        for piece in self._pieces:
            if isinstance(piece, str):
                parts.append(piece)
                row += piece.count("\n")
            else:
                parts.append(self._word % next(numbers))
                breaks[row] += piece.breaks
        for row, line in enumerate("".join(parts).split("\n")):
            yield line, number
            number += 1 + breaks[row]

    def resolved(self, text: str) -> Any:
        """A text, a slot, or a tuple of both. Whitespace around a single slot is dropped."""
        if match := self.pattern.fullmatch(text.strip()):
            return Slot(self._names[int(match[1])])
        parts = self.pattern.split(text)
        if len(parts) == 1:
            return text
        return tuple(
            Slot(self._names[int(part)]) if odd % 2 else part
            for odd, part in enumerate(parts)
            if part
        )


def read_entries(
    pieces: Sequence[str | Placeholder],
    first_line: int,
    report_error: Report,
    report_warning: Report,
) -> list[Entry]:
    """Parse the entries; `first_line` is the number of the first line."""
    tokens = _Tokens(pieces)
    blocks: list[tuple[str, list[str], list[int]]] = []
    for line, number in tokens.lines(first_line):
        if CONTINUATION.match(line):
            if blocks:
                blocks[-1][1].append(line)
                blocks[-1][2].append(number)
            elif not COMMENT.match(line):
                report_error(number, "The front matter must begin with `key: value`")
        elif match := ENTRY_START.match(line):
            blocks.append((match[1].rstrip(), [line], [number]))
        else:
            report_error(number, "This line of the front matter is not `key: value`")
    entries: dict[str, Entry] = {}
    for key, lines, numbers in blocks:
        if key == CLIENT_KEY and any(line[:1] in (" ", "\t") for line in lines):
            continue
        while TRAILING.match(lines[-1]):  # belongs to the next entry, or to none
            lines.pop()
        entry = _entry(key, "\n".join(lines), numbers, tokens, report_error, report_warning)
        if entry is None:
            continue
        if entry.key in entries:
            first = entries[entry.key].line
            report_error(entry.line, f"`{entry.key}` occurs twice, first in line {first}")
        entries.setdefault(entry.key, entry)
    return list(entries.values())


def _entry(
    key: str,
    text: str,
    numbers: list[int],
    tokens: _Tokens,
    report_error: Report,
    report_warning: Report,
) -> Entry | None:
    line = numbers[0]
    if tokens.pattern.search(key):
        report_error(line, "A key of the front matter cannot be a slot")
        return None
    try:
        node = _Loader(text + "\n").get_single_node()
        if not isinstance(node, yaml.MappingNode) or len(node.value) != 1 or node.flow_style:
            raise yaml.YAMLError("it is not one key with one value")
        ((key, value),) = _data_of(node, tokens.resolved).items()
    except RecursionError:
        report_error(line, f"`{key}` is nested too deeply")
        return None
    except yaml.YAMLError as error:
        # A single line that is not YAML is taken as text: `note: Important: read it`.
        start = ENTRY_START.match(text)
        if start is not None and "\n" not in text and key[0] not in "\"'":
            plain = text[start.end() :].strip()
            if plain and plain[0] not in STRUCTURE:
                report_warning(line, f"The value of `{key}` is taken as text; put it in quotes")
                return Entry(key, tokens.resolved(plain), line)
        if (mark := getattr(error, "problem_mark", None)) is not None:
            line = numbers[min(mark.line, len(numbers) - 1)]
        problem = getattr(error, "problem", None) or error
        report_error(line, f"`{key}` cannot be read as YAML: {problem}")
        return None
    if len(key) > MAX_KEY // 2:
        report_error(line, "The key is too long")
        return None
    begin = ENTRY_START.match(text)
    if value is None and begin is not None:  # the word `null` is a text to some clients
        return Entry(key, value, line, text[: begin.end()])
    written = text[begin.end() :].strip() if begin else text
    is_constant = not tokens.pattern.search(text) and _can_be_copied(text, written, value)
    return Entry(key, value, line, text if is_constant else None)


def _can_be_copied(text: str, written: str, value: Any) -> bool:
    """Clients that read line by line know JSON and texts without quotes. Older YAML parsers fail on
    a date like 2026-02-30 or a key like `<<`."""
    if "\n" in text or " #" in written or written.startswith("'"):
        return False
    if isinstance(value, dict | list) or written.startswith('"'):
        try:
            if json.loads(written) != value:
                return False
        except (ValueError, RecursionError):
            return False
    try:
        yaml.safe_load(text)
    except (yaml.YAMLError, ArithmeticError, TypeError, ValueError, RecursionError):
        return False
    return True
