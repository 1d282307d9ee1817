"""The numbers behind a chart, as a table."""

from .blocks import Block, Grid, Paragraph, Run, Style
from .ooxml import DRAWING, Part
from .xml_parts import Element, integer

C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
#: What refers to a chart, where it is shown.
CHART = f"{C}chart"
_MAX_POINTS = 10_000


def chart_blocks(part: Part | None) -> list[Block]:
    """Its title and one row for each category; nothing of a chart that keeps no numbers."""
    if part is None:
        return []
    title = "".join(each.text or "" for each in part.root.iterfind(f".//{C}title//{DRAWING}t"))
    series = [_series(each) for each in part.root.iter(f"{C}ser")]
    blocks: list[Block] = []
    if title.strip():
        blocks.append(Paragraph([Run(title.strip(), Style(bold=True))]))
    rows = _rows(series)
    return [*blocks, Grid(rows)] if rows else blocks


def _series(element: Element) -> tuple[str, dict[int, str], dict[int, str]]:
    name = element.find(f"{C}tx")
    categories = element.find(f"{C}cat")
    if categories is None:
        categories = element.find(f"{C}xVal")
    values = element.find(f"{C}val")
    if values is None:
        values = element.find(f"{C}yVal")
    return " ".join(_points(name).values()), _points(categories), _points(values)


def _points(element: Element | None) -> dict[int, str]:
    if element is None:
        return {}
    found: dict[int, str] = {}
    for point in element.iter(f"{C}pt"):
        text = point.findtext(f"{C}v")
        if text is not None and len(found) < _MAX_POINTS:
            found[integer(point.get("idx"))] = text
    return found or {0: element.findtext(f".//{C}v") or ""}


def _rows(series: list[tuple[str, dict[int, str], dict[int, str]]]) -> list[list[str]]:
    if not any(values for _, _, values in series):
        return []
    categories: dict[int, str] = {}
    for _, theirs, _ in series:
        categories = {**theirs, **categories}
    places = sorted({place for _, _, values in series for place in values})
    head = ["", *(name for name, _, _ in series)]
    return [head] + [
        [categories.get(place, ""), *(values.get(place, "") for _, _, values in series)]
        for place in places
    ]
