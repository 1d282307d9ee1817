"""Charts as SVG: lines and bars. Each has a ground of its own, light or dark as the reader's system
has it, so that it can be read on any page."""

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH = 720
#: Of a line chart.
HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 320, 72, 170, 56, 52
#: Of a bar chart: the place for names of rows and for figures behind the bars.
NAMES, FIGURES, BAR, GAP = 232, 84, 12, 10
#: On light ground and on dark, so that neighbours differ in lightness too.
COLORS = (
    ("#1f5fa8", "#7db7f0"),
    ("#b8500f", "#f2a36b"),
    ("#2f7d3e", "#86cf93"),
    ("#7b3f95", "#cfa0e3"),
    ("#7a5d12", "#d9bf6b"),
)
STYLE = (
    "text{fill:#24292f;font:12px sans-serif}.ground{fill:#fff}.rule{stroke:#24292f;opacity:.18}"
    ".aim{stroke:#24292f;stroke-dasharray:5 4}.title{font-weight:bold;font-size:14px}"
    ".small{font-size:11px}.other{fill:#8b949e}"
)
DARK = "text{fill:#e6e6e6}.ground{fill:#1e2129}.rule,.aim{stroke:#e6e6e6}.other{fill:#7d8590}"


def lines(
    title: str,
    x: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    *,
    unit: str,
    axis: str = "",
) -> str:
    """One line for each series; the places on the x axis have the same distance."""
    most = _round_above(max((v for values in series.values() for v in values if v), default=1))
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    step = wide / max(len(x) - 1, 1)
    parts = [_text(14, 24, title, "title"), *_grid(most, wide, high, unit)]
    for place, name in enumerate(x):
        parts.append(_text(LEFT + place * step, HEIGHT - BOTTOM + 18, name, anchor="middle"))
    parts.append(_text(LEFT + wide / 2, HEIGHT - BOTTOM + 38, axis, anchor="middle"))
    for number, (name, values) in enumerate(series.items()):
        points = [
            (LEFT + place * step, TOP + high * (1 - value / most))
            for place, value in enumerate(values)
            if value is not None
        ]
        kind, drawn = _kind(number), " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{drawn}" class="line {kind}"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" class="{kind}"/>' for a, b in points]
        parts += _legend(WIDTH - RIGHT + 16, TOP + 14 + 22 * number, name, kind)
    return _svg(HEIGHT, title, parts)


def curves(
    title: str, x: Sequence[float], series: Mapping[str, Sequence[float]], *, unit: str, axis: str
) -> str:
    """Like `lines`, of measurements at any times; `x` grows from 0."""
    most = _round_above(max((value for values in series.values() for value in values), default=1))
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    last = max(x[-1], 1e-9)
    parts = [_text(14, 24, title, "title"), *_grid(most, wide, high, unit)]
    for part in range(5):
        shown, place = _short(last * part / 4), LEFT + wide * part / 4
        parts.append(_text(place, HEIGHT - BOTTOM + 18, shown, anchor="middle"))
    parts.append(_text(LEFT + wide / 2, HEIGHT - BOTTOM + 38, axis, anchor="middle"))
    for number, (name, values) in enumerate(series.items()):
        drawn = " ".join(
            f"{LEFT + wide * at / last:.1f},{TOP + high * (1 - value / most):.1f}"
            for at, value in zip(x, values, strict=True)
        )
        parts.append(f'<polyline points="{drawn}" class="line {_kind(number)}"/>')
        parts += _legend(WIDTH - RIGHT + 16, TOP + 14 + 22 * number, name, _kind(number))
    return _svg(HEIGHT, title, parts)


def below_each_other(title: str, drawings: Sequence[str]) -> str:
    """Several of the same height as one."""
    placed = [
        drawing.replace("<svg ", f'<svg y="{HEIGHT * number}" height="{HEIGHT}" ', 1)
        for number, drawing in enumerate(drawings)
    ]
    return _svg(HEIGHT * len(drawings), title, placed)


def bars(
    title: str,
    rows: Mapping[str, Sequence[float | None]],
    names: Sequence[str],
    *,
    unit: str,
    aim: float | None = None,
    ours: str | None = None,
    roots: bool = False,
) -> str:
    """A group of bars for each row, one for each name. With one name, rows that begin with `ours`
    stand out. `roots`: lengths are square roots, so that small ones show."""
    most = max((v for values in rows.values() for v in values if v), default=1.0)
    most = max(most, aim or 0)
    group, top = BAR * len(names) + GAP, 60 if len(names) > 1 else 44
    bottom = top + group * len(rows)
    parts = [_text(14, 24, title, "title")]
    if len(names) > 1:
        for number, name in enumerate(names):
            parts += _legend(NAMES + 110 * number, 46, name, _kind(number))
    for row, (name, values) in enumerate(rows.items()):
        y = top + group * row
        parts.append(_text(NAMES - 10, y + BAR * len(names) / 2 + 4, name, anchor="end"))
        for number, value in enumerate(values):
            alone = len(names) == 1 and ours is not None and not name.startswith(ours)
            kind = "other" if alone else _kind(number)
            parts += _bar(y + BAR * number, value, _share(value, most, roots=roots), kind)
    if aim is not None:
        parts += _aim(aim, _share(aim, most, roots=roots), top, bottom)
    caption = f"{unit}, lengths are square roots" if roots else unit
    parts.append(_text(NAMES, bottom + (34 if aim is not None else 16), caption, "small"))
    return _svg(bottom + (46 if aim is not None else 28), title, parts)


def _share(value: float | None, most: float, *, roots: bool) -> float:
    share = (value or 0) / most
    return share**0.5 if roots else share


def _bar(y: float, value: float | None, share: float, kind: str) -> list[str]:
    wide = (WIDTH - NAMES - FIGURES) * share
    shown = "none" if value is None else _short(value)
    rect = f'<rect x="{NAMES}" y="{y}" width="{wide:.1f}" height="{BAR - 2}" class="{kind}"/>'
    return [rect, _text(NAMES + wide + 6, y + BAR - 3, shown, "small")]


def _aim(aim: float, share: float, top: float, bottom: float) -> list[str]:
    x = NAMES + (WIDTH - NAMES - FIGURES) * share
    rule = f'<line x1="{x:.1f}" y1="{top - 4}" x2="{x:.1f}" y2="{bottom + 4}" class="aim"/>'
    return [rule, _text(x, bottom + 18, f"aim: {_short(aim)}", "small", anchor="middle")]


def _grid(most: float, wide: float, high: float, unit: str) -> list[str]:
    parts = []
    for part in range(5):
        y = TOP + high * (1 - part / 4)
        parts.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + wide}" y2="{y:.1f}" class="rule"/>'
        )
        parts.append(_text(LEFT - 8, y + 4, _short(most * part / 4), anchor="end"))
    return [*parts, _text(LEFT - 8, TOP - 14, unit, anchor="end")]


def _legend(x: float, y: float, name: str, kind: str) -> list[str]:
    mark = f'<rect x="{x:.1f}" y="{y - 10:.1f}" width="11" height="11" class="{kind}"/>'
    return [mark, _text(x + 17, y, name)]


def _kind(number: int) -> str:
    return f"s{number % len(COLORS)}"


def _round_above(value: float) -> float:
    """So that a quarter of it is a number to read."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(step * power for step in (1, 1.2, 2, 4, 6, 8, 10) if step * power >= value)


def _short(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _text(x: float, y: float, text: str, kind: str = "", *, anchor: str = "start") -> str:
    classed = f' class="{kind}"' if kind else ""
    placed = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{placed}{classed}>{escape(text)}</text>'


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    numbered = [(_kind(number), *both) for number, both in enumerate(COLORS)]
    light = "".join(f".{kind}{{fill:{color};stroke:{color}}}" for kind, color, _ in numbered)
    dark = "".join(f".{kind}{{fill:{color};stroke:{color}}}" for kind, _, color in numbered)
    # A line has no inside; the rule comes last, as all have the same weight.
    style = f"{STYLE}{light}@media(prefers-color-scheme:dark){{{DARK}{dark}}}"
    style += ".line{fill:none;stroke-width:2}rect{stroke:none}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">'
        f"<title>{escape(title)}</title><style>{style}</style>"
    )
    ground = f'<rect class="ground" width="{WIDTH}" height="{height:g}" rx="6"/>'
    return "\n".join([head, ground, *parts, "</svg>"]) + "\n"
