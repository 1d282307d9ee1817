"""Reads YAML as far as a front matter may have it: plain data, nothing that points or runs."""

import re
from collections.abc import Callable
from typing import Any

import yaml

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
