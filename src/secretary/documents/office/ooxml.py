"""What docx, xlsx and pptx share: parts and relationships, charts and equations."""

import posixpath
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from urllib.parse import unquote

from ...core.errors import FileCorrupt
from .blocks import Block, Grid, Paragraph, Picture, Pictures, Run, Style
from .containers import Archive
from .xml_parser import DUBLIN, Element, child_texts, parse_int, parse_xml

_OFFICE = "http://schemas.openxmlformats.org/"
RELATIONSHIP = f"{{{_OFFICE}officeDocument/2006/relationships}}"
DRAWING = f"{{{_OFFICE}drawingml/2006/main}}"
_MARKUP = f"{{{_OFFICE}markup-compatibility/2006}}"
#: The element that contains alternative representations.
ALTERNATIVES = f"{_MARKUP}AlternateContent"
_PACKAGE = f"{{{_OFFICE}package/2006/relationships}}"
_PROPERTIES = {
    f"{DUBLIN}title": "title",
    f"{DUBLIN}subject": "subject",
    f"{DUBLIN}creator": "author",
    f"{DUBLIN}language": "language",
    f"{{{_OFFICE}package/2006/metadata/core-properties}}keywords": "keywords",
    "{http://purl.org/dc/terms/}created": "created_at",
    "{http://purl.org/dc/terms/}modified": "modified_at",
}


class Relationship(NamedTuple):
    #: The last segment of its type, such as `image`.
    kind: str
    #: The name of a part, or an external URL.
    target: str
    is_outside: bool


@dataclass(frozen=True)
class Part:
    """A part of an OOXML package, with its relationships."""

    archive: Archive
    name: str

    @cached_property
    def root(self) -> Element:
        return parse_xml(self.archive.read(self.name))

    @cached_property
    def relationships(self) -> dict[str, Relationship]:
        folder, name = posixpath.split(self.name)
        path = posixpath.join(folder, "_rels", f"{name}.rels")
        if path not in self.archive:
            return {}
        relationships = {}
        for each in parse_xml(self.archive.read(path)).iterchildren(f"{_PACKAGE}Relationship"):
            kind, target = each.get("Type", "").rpartition("/")[2], each.get("Target", "")
            is_outside = each.get("TargetMode") == "External"
            if not is_outside:
                target = posixpath.normpath(posixpath.join("/", folder, unquote(target)))
                target = target.lstrip("/")
            relationships[each.get("Id", "")] = Relationship(kind, target, is_outside)
        return relationships

    def related(self, kind: str) -> "Part | None":
        """Return the first part with a relationship of this type."""
        related = (self.by_id(key) for key, each in self.relationships.items() if each.kind == kind)
        return next(filter(None, related), None)

    def by_id(self, identity: str | None) -> "Part | None":
        relationship = self.relationships.get(identity or "")
        if relationship is None or relationship.is_outside:
            return None
        is_present = relationship.target in self.archive
        return Part(self.archive, relationship.target) if is_present else None

    def link(self, identity: str | None) -> str | None:
        relationship = self.relationships.get(identity or "")
        return relationship.target if relationship and relationship.is_outside else None

    def picture(self, identity: str | None, alt: str | None, pictures: Pictures) -> Picture:
        """Save a picture of this part; external pictures are not fetched."""
        part = self.by_id(identity) if pictures.are_saved else None
        file = pictures.save(part.archive.read(part.name)) if part else None
        return Picture((alt or "").strip(), file)

    def drawn_picture(
        self, element: Element, pictures: Pictures, alt: str | None = None
    ) -> Picture:
        """Save the picture of a `pic` element, whose children share its namespace. `alt` is used if
        the picture has no description of its own."""
        own = element.tag.removesuffix("pic")
        named = element.find(f"{own}nvPicPr/{own}cNvPr")
        blip = element.find(f"{own}blipFill/{DRAWING}blip")
        identity = blip.get(f"{RELATIONSHIP}embed") if blip is not None else None
        description = named.get("descr") if named is not None else None
        return self.picture(identity, description or alt, pictures)


def main_part(archive: Archive, usual_name: str) -> Part:
    part = Part(archive, "").related("officeDocument")
    if part is not None:
        return part
    if usual_name not in archive:
        raise FileCorrupt("The document has no content")
    return Part(archive, usual_name)


def core_properties(archive: Archive) -> dict[str, str]:
    part = Part(archive, "").related("core-properties")
    return child_texts(part.root, _PROPERTIES) if part is not None else {}


def chosen_elements(elements: Iterable[Element]) -> Iterator[Element]:
    """Yield the elements; of alternative representations, the one for current programs."""
    for element in elements:
        if element.tag != ALTERNATIVES:
            yield element
            continue
        chosen = element.find(f"{_MARKUP}Choice")
        chosen = chosen if chosen is not None else element.find(f"{_MARKUP}Fallback")
        yield from chosen_elements(chosen if chosen is not None else ())


C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
#: The element that refers to a chart.
CHART = f"{C}chart"
_MAX_POINTS = 10_000


def chart_blocks(part: Part | None) -> list[Block]:
    """Return the title and one row per category; nothing if the chart caches no numbers."""
    if part is None:
        return []
    title = "".join(each.text or "" for each in part.root.iterfind(f".//{C}title//{DRAWING}t"))
    blocks: list[Block] = []
    if title.strip():
        blocks.append(Paragraph([Run(title.strip(), Style(bold=True))]))
    head = [""]
    categories: dict[int, str] = {}
    columns: list[dict[int, str]] = []
    for series in part.root.iter(f"{C}ser"):
        head.append(" ".join(_points(series, "tx").values()))
        categories = {**_points(series, "cat", "xVal"), **categories}
        columns.append(_points(series, "val", "yVal"))
    rows = [
        [categories.get(index, ""), *(column.get(index, "") for column in columns)]
        for index in sorted({index for column in columns for index in column})
    ]
    return [*blocks, Grid([head, *rows])] if rows else blocks


def _points(series: Element, *names: str) -> dict[int, str]:
    """Return the values of the first of these children."""
    element = next(series.iterchildren(*(f"{C}{name}" for name in names)), None)
    if element is None:
        return {}
    points: dict[int, str] = {}
    for point in element.iter(f"{C}pt"):
        text = point.findtext(f"{C}v")
        if text is not None and len(points) < _MAX_POINTS:
            points[parse_int(point.get("idx"))] = text
    return points or {0: element.findtext(f".//{C}v") or ""}


M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_VALUE = f"{M}val"
_NEXT = r" \\ "
_HAT = r"\hat"

_LARGE = {
    "∑": r"\sum", "∏": r"\prod", "∐": r"\coprod", "∫": r"\int", "∬": r"\iint", "∭": r"\iiint",
    "∮": r"\oint", "\u22c3": r"\bigcup", "⋂": r"\bigcap", "\u22c1": r"\bigvee", "⋀": r"\bigwedge",
}  # fmt: skip
_ACCENTS = {
    "\u0302": r"\hat", "\u0303": r"\tilde", "\u0304": r"\bar", "\u0305": r"\bar",
    "\u0307": r"\dot", "\u0308": r"\ddot", "\u030c": r"\check", "\u20d7": r"\vec",
}  # fmt: skip
_FUNCTIONS = {
    "arccos", "arcsin", "arctan", "cos", "cosh", "cot", "det", "exp", "gcd", "inf", "lim", "ln",
    "log", "max", "min", "sin", "sinh", "sup", "tan", "tanh",
}  # fmt: skip
_ESCAPED = str.maketrans(
    {"{": r"\{", "}": r"\}", "$": r"\$", "#": r"\#", "&": r"\&", "%": r"\%", "_": r"\_"}
)


def to_latex(element: Element) -> str:
    """Convert all children of an element to LaTeX, in one line. Only runs contain text, so that
    properties of any kind give none."""
    return "".join(_WRITERS.get(child.tag, to_latex)(child) for child in element)


def _part(element: Element, name: str) -> str:
    child = element.find(f"{M}{name}")
    return to_latex(child) if child is not None else ""


def _property(element: Element, path: str, default: str) -> str:
    child = element.find("/".join(f"{M}{name}" for name in path.split("/")))
    return default if child is None else child.get(_VALUE, "")


def _text(element: Element) -> str:
    text = "".join(each.text or "" for each in element.iterchildren(f"{M}t"))
    if text.strip() in _FUNCTIONS:
        return f"\\{text.strip()} "
    return text.translate(_ESCAPED)


def _base(element: Element) -> str:
    base = _part(element, "e")
    return base if len(base) == 1 else f"{{{base}}}"


def _large(element: Element) -> str:
    sign = _property(element, "naryPr/chr", "∫")
    scripts = _script(element, "_", "sub") + _script(element, "^", "sup")
    return f"{_LARGE.get(sign, sign)}{scripts} {_part(element, 'e')}"


def _delimited(element: Element) -> str:
    begin = _property(element, "dPr/begChr", "(") or "."
    end = _property(element, "dPr/endChr", ")") or "."
    between = _property(element, "dPr/sepChr", "|")
    inner = _rows(element, "e", between)
    if (begin, end) in (("(", ")"), ("[", "]")) and "\\frac" not in inner:
        return f"{begin}{inner}{end}"
    braces = {"{": r"\{", "}": r"\}"}
    return f"\\left{braces.get(begin, begin)}{inner}\\right{braces.get(end, end)}"


def _radical(element: Element) -> str:
    degree = _part(element, "deg")
    return f"\\sqrt{f'[{degree}]' if degree else ''}{{{_part(element, 'e')}}}"


def _bar(element: Element) -> str:
    is_above = _property(element, "barPr/pos", "bot") == "top"
    return f"\\{'overline' if is_above else 'underline'}{{{_part(element, 'e')}}}"


def _rows(element: Element, name: str, between: str) -> str:
    return between.join(to_latex(each) for each in element.iterchildren(f"{M}{name}"))


def _matrix(element: Element) -> str:
    rows = (_rows(row, "e", " & ") for row in element.iterchildren(f"{M}mr"))
    return f"\\begin{{matrix}}{_NEXT.join(rows)}\\end{{matrix}}"


def _script(element: Element, sign: str, name: str) -> str:
    text = _part(element, name)
    return f"{sign}{{{text}}}" if text else ""


_WRITERS: dict[str, Callable[[Element], str]] = {
    f"{M}{name}": writer
    for name, writer in {
        "r": _text, "nary": _large, "d": _delimited, "m": _matrix, "rad": _radical, "bar": _bar,
        "eqArr": lambda e: f"\\begin{{array}}{{l}}{_rows(e, 'e', _NEXT)}\\end{{array}}",
        "sPre": lambda e: f"{{}}_{{{_part(e, 'sub')}}}^{{{_part(e, 'sup')}}}{_part(e, 'e')}",
        "func": lambda e: f"{_part(e, 'fName').strip()} {{{_part(e, 'e')}}}",
        "acc": lambda e: f"{_ACCENTS.get(_property(e, 'accPr/chr', ''), _HAT)}{{{_part(e, 'e')}}}",
        "f": lambda e: f"\\frac{{{_part(e, 'num')}}}{{{_part(e, 'den')}}}",
        "sSup": lambda e: f"{_base(e)}^{{{_part(e, 'sup')}}}",
        "sSub": lambda e: f"{_base(e)}_{{{_part(e, 'sub')}}}",
        "sSubSup": lambda e: f"{_base(e)}_{{{_part(e, 'sub')}}}^{{{_part(e, 'sup')}}}",
        "limLow": lambda e: f"{_part(e, 'e').strip()}_{{{_part(e, 'lim')}}}",
        "limUpp": lambda e: f"{_part(e, 'e').strip()}^{{{_part(e, 'lim')}}}",
    }.items()
}  # fmt: skip
