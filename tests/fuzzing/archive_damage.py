"""Damages ZIP-based documents below the compression: their parts, and the XML in them."""

import random
import re
from copy import deepcopy

from lxml import etree

from ..hostile_office import members, squeezed
from ..minimal_files import zipped
from .damage import TOKENS, damage_bytes

#: What attributes are set to, besides the values of other attributes.
ODD_VALUES = (
    *(
        "",
        "0",
        "-1",
        "1.5",
        "nan",
        "1e308",
        "99999999999999999999",
        "2147483647",
        "true",
        "A1:XFD1",
    ),
    *("A0", "R1C1", "#REF!", "rId1", "rId999", "../../x", "http://a/", "\u202e", "&amp;", "FF00GG"),
    *("x" * 5000, "1,2,3", "100%", "12pt", "P1Y", "2026-13-45", "[$-409]", "0;;;@", " ", "|"),
)


def part(content: bytes, chance: random.Random) -> bytes:
    """The bytes of one part."""
    parts = members(content)
    victim = chance.choice(sorted(parts))
    return zipped(parts | {victim: damage_bytes(parts[victim], chance)})


def contents(content: bytes, chance: random.Random) -> bytes:
    """The list of parts: swapped, missing, duplicated, renamed, compressed or not."""
    parts = members(content)
    for _ in range(chance.choice((1, 1, 2, 3))):
        one, other = chance.choice(sorted(parts)), chance.choice(sorted(parts))
        match chance.randrange(5):
            case 0:
                parts[one], parts[other] = parts[other], parts[one]
            case 1 if len(parts) > 1:
                del parts[one]
            case 2:
                parts[one.upper() if one != one.upper() else f"{one}/"] = parts[other]
            case 3:
                parts[chance.choice(("../x", "/x", "word//x", "x\\y", "é", "a" * 300))] = parts[one]
            case _:
                parts[one] = chance.choice((b"", b"<a/>", parts[one][: len(parts[one]) // 2]))
    return (squeezed if chance.random() < 0.3 else zipped)(parts)


def tree(content: bytes, chance: random.Random) -> bytes:
    """The XML of one part, which stays well-formed."""
    parts = members(content)
    names = [name for name, text in sorted(parts.items()) if text.lstrip()[:1] == b"<"]
    # The parts with the text are a few among many.
    main = [name for name in names if "document" in name or "sheet" in name or "slide" in name]
    victim = chance.choice(main if main and chance.random() < 0.6 else names)
    root = etree.fromstring(parts[victim], etree.XMLParser(resolve_entities=False))
    for _ in range(chance.choice((1, 1, 2, 4, 10))):
        _change(root, chance)
    return zipped(parts | {victim: etree.tostring(root, xml_declaration=True, encoding="UTF-8")})


def _change(root: "etree._Element", chance: random.Random) -> None:
    elements = list(root.iter(etree.Element))
    one, other = chance.choice(elements), chance.choice(elements)
    match chance.randrange(8):
        case 0 if one.getparent() is not None:
            one.getparent().remove(one)
        case 1:
            other.append(deepcopy(one))
        case 2:
            one.tag = other.tag
        case 3:
            one.text = re.sub("[\0-\x1f]", "", chance.choice(TOKENS).decode("latin-1"))
        case 4 if one.getparent() is not None:
            _nest(one, chance.choice((2, 20, 200)))
        case 5 if one.attrib:
            del one.attrib[chance.choice(sorted(one.attrib))]
        case _:
            _set(one, other, chance)


def _set(one: "etree._Element", other: "etree._Element", chance: random.Random) -> None:
    names = sorted({*one.attrib, *other.attrib})
    if names:
        values = (*ODD_VALUES, *other.attrib.values())
        one.set(chance.choice(names), chance.choice(values))


def _nest(element: "etree._Element", depth: int) -> None:
    """Nests an element in elements of the same name."""
    parent = element.getparent()
    index = parent.index(element)
    inner = element
    for _ in range(depth):
        outer = etree.Element(element.tag, dict(element.attrib))
        outer.append(inner)
        inner = outer
    parent.insert(index, inner)
