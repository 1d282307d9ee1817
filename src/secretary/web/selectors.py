"""Selects elements of a page by a CSS selector, or by a path of XPath 1.0."""

import re
from typing import Any

from ..core.errors import InvalidParameters

MAX_SELECTED = 2000

_TOKEN = re.compile(
    r"""
    \s*(?P<combinator>[>+~,])\s*
    | (?P<descendant>\s+)
    | (?P<tag>\*|[A-Za-z][\w-]*)
    | \#(?P<id>[\w-]+)
    | \.(?P<class>[\w-]+)
    | \[\s*(?P<name>[A-Za-z_][\w-]*)\s*
      (?:(?P<operator>[~^$*]?=)\s*(?P<value>"[^"]*"|'[^']*'|[\w-]+)\s*)?\]
    | :(?P<position>first-child|last-child|nth-child\([1-9][0-9]{0,3}\))
    """,
    re.VERBOSE,
)
_AXES = {" ": "//", ">": "/", "+": "/following-sibling::*[1]/self::", "~": "/following-sibling::"}
SUPPORTED = (
    "a CSS selector of tags, #id, .class, [attribute=value], :first-child, :last-child,"
    " :nth-child(n), blanks, >, +, ~ and commas, or an XPath that begins with /"
)


def to_xpath(selector: str) -> str:
    """The selector as XPath. Raises `ValueError` if it is not supported."""
    selector = selector.strip()
    if selector.startswith(("/", "./", "(/")):
        return selector
    paths, path, step, conditions = [], ".//", "", []  # type: ignore[var-annotated]
    position = 0

    def finish() -> str:
        if not step and not conditions:
            raise ValueError(f"it must be {SUPPORTED}")
        return path + (step or "*") + "".join(f"[{one}]" for one in conditions)

    while position < len(selector):
        match = _TOKEN.match(selector, position)
        if match is None or (match["tag"] and (step or conditions)):
            raise ValueError(f"it must be {SUPPORTED}")
        position = match.end()
        if match["tag"]:
            step = match["tag"].lower()
        elif condition := _condition(match):
            conditions.append(condition)
        else:
            done, step, conditions = finish(), "", []
            combinator = match["combinator"] or " "
            if combinator == ",":
                paths.append(done)
            path = ".//" if combinator == "," else done + _AXES[combinator]
    return " | ".join([*paths, finish()])


def _condition(match: re.Match[str]) -> str:
    if match["id"]:
        return f"@id='{match['id']}'"
    if match["class"]:
        return _has_word("class", f"'{match['class']}'")
    if match["position"]:
        name, _, number = match["position"].partition("(")
        if name == "last-child":
            return "not(following-sibling::*)"
        return f"count(preceding-sibling::*)={int(number.rstrip(')') or 1) - 1}"
    if not match["name"]:
        return ""
    name, operator, value = match["name"].lower(), match["operator"], match["value"] or ""
    literal = value if value[:1] in ("'", '"') else f"'{value}'"
    length = len(value.strip("'\""))
    match operator:
        case None:
            return f"@{name}"
        case "=":
            return f"@{name}={literal}"
        case "~=":
            return _has_word(name, literal)
        case "^=":
            return f"starts-with(@{name}, {literal})"
        case "*=":
            return f"contains(@{name}, {literal})"
        case _:
            return f"substring(@{name}, string-length(@{name}) - {length - 1})={literal}"


def _has_word(attribute: str, literal: str) -> str:
    spaced = f"concat(' ', normalize-space(@{attribute}), ' ')"
    return f"contains({spaced}, concat(' ', {literal}, ' '))"


def select(root: Any, selector: str) -> list[Any]:
    """The matching elements in their order, without those inside another one."""
    from lxml import etree

    try:
        matches = root.xpath(to_xpath(selector))
    except (etree.XPathError, ValueError):
        raise InvalidParameters(f"container_selector: it must be {SUPPORTED}") from None
    elements = matches if isinstance(matches, list) else []
    elements = [one for one in elements if isinstance(getattr(one, "tag", None), str)]
    chosen = set(elements)
    outer = [one for one in elements if not any(up in chosen for up in one.iterancestors())]
    if not outer:
        raise InvalidParameters("container_selector: nothing on the page matches it")
    return outer[:MAX_SELECTED]
