"""Line and bar charts as SVG, with their own light and dark background."""

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH = 720
#: Of a line chart.
HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 320, 72, 170, 56, 52
#: Of a bar chart: room for row names and for figures behind the bars.
NAMES, FIGURES, BAR, GAP = 232, 84, 12, 10
#: For a light and a dark background; neighbours differ in lightness, too.
COLORS = (
    ("#1f5fa8", "#7db7f0"),
    ("#b8500f", "#f2a36b"),
    ("#2f7d3e", "#86cf93"),
    ("#7b3f95", "#cfa0e3"),
    ("#7a5d12", "#d9bf6b"),
)
LIGHT = (
    "text{fill:#24292f;font:12px sans-serif}.ground{fill:#fff}.rule{stroke:#24292f;opacity:.18}"
    ".target{stroke:#24292f;stroke-dasharray:5 4}.title{font-weight:bold;font-size:14px}"
    ".small{font-size:11px}.other{fill:#8b949e}"
)
DARK = "text{fill:#e6e6e6}.ground{fill:#1e2129}.rule,.target{stroke:#e6e6e6}.other{fill:#7d8590}"

Values = Sequence[float | None]


def lines(
    title: str,
    x: Sequence[str] | Sequence[float],
    series: Mapping[str, Values],
    *,
    unit: str,
    axis: str = "",
) -> str:
    """One line per series: over evenly spaced names, or over numbers that start at 0."""
    highest = _round_up(max((v for values in series.values() for v in values if v), default=1))
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    numbers = [value for value in x if not isinstance(value, str)]
    last = max(numbers[-1], 1e-9) if numbers else max(len(x) - 1, 1)
    positions = numbers or list(range(len(x)))
    ticks: dict[float, str] = (
        {last * part / 4: _short(last * part / 4) for part in range(5)}
        if numbers
        else {number: str(name) for number, name in enumerate(x)}
    )
    parts = [_text(14, 24, title, "title"), *_grid(highest, width, height, unit)]
    for at, name in ticks.items():
        parts.append(_text(LEFT + width * at / last, HEIGHT - BOTTOM + 18, name, anchor="middle"))
    parts.append(_text(LEFT + width / 2, HEIGHT - BOTTOM + 38, axis, anchor="middle"))
    for number, (name, values) in enumerate(series.items()):
        points = [
            (LEFT + width * at / last, TOP + height * (1 - value / highest))
            for at, value in zip(positions, values, strict=True)
            if value is not None
        ]
        color, joined = _color(number), " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{joined}" class="line {color}"/>')
        for a, b in points if not numbers else ():
            parts.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" class="{color}"/>')
        parts += _legend(WIDTH - RIGHT + 16, TOP + 14 + 22 * number, name, color)
    return _svg(HEIGHT, title, parts)


def stacked(title: str, drawings: Sequence[str]) -> str:
    """Several line charts below each other, as one image."""
    placed = [
        drawing.replace("<svg ", f'<svg y="{HEIGHT * number}" height="{HEIGHT}" ', 1)
        for number, drawing in enumerate(drawings)
    ]
    return _svg(HEIGHT * len(drawings), title, placed)


def bars(
    title: str,
    rows: Mapping[str, Values],
    names: Sequence[str],
    *,
    unit: str,
    target: float | None = None,
    ours: str | None = None,
    square_root: bool = False,
) -> str:
    """A group of bars per row, one bar per name. With one name, rows that start with `ours` stand
    out. `square_root` scales the lengths so that small values stay visible."""
    highest = max([v for values in rows.values() for v in values if v] + [target or 0]) or 1.0
    several = len(names) > 1
    group, top = BAR * len(names) + GAP, 60 if several else 44
    bottom = top + group * len(rows)

    def length(value: float) -> float:
        share = value / highest
        return (WIDTH - NAMES - FIGURES) * (share**0.5 if square_root else share)

    parts = [_text(14, 24, title, "title")]
    for number, name in enumerate(names if several else ()):
        parts += _legend(NAMES + 110 * number, 46, name, _color(number))
    for row, (name, values) in enumerate(rows.items()):
        y = top + group * row
        parts.append(_text(NAMES - 10, y + BAR * len(names) / 2 + 4, name, anchor="end"))
        for number, value in enumerate(values):
            peer = not several and ours is not None and not name.startswith(ours)
            wide, at = length(value or 0), y + BAR * number
            parts.append(
                f'<rect x="{NAMES}" y="{at}" width="{wide:.1f}" height="{BAR - 2}" '
                f'class="{"other" if peer else _color(number)}"/>'
            )
            figure = "none" if value is None else _short(value)
            parts.append(_text(NAMES + wide + 6, at + BAR - 3, figure, "small"))
    if target is not None:
        x = NAMES + length(target)
        parts.append(
            f'<line x1="{x:.1f}" y1="{top - 4}" x2="{x:.1f}" y2="{bottom + 4}" class="target"/>'
        )
        label = f"target: {_short(target)}"
        parts.append(_text(x, bottom + 18, label, "small", anchor="middle"))
        bottom += 18
    caption = f"{unit}, square root scale" if square_root else unit
    parts.append(_text(NAMES, bottom + 16, caption, "small"))
    return _svg(bottom + 28, title, parts)


def _grid(highest: float, width: float, height: float, unit: str) -> list[str]:
    parts = []
    for part in range(5):
        y = TOP + height * (1 - part / 4)
        parts.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + width}" y2="{y:.1f}" class="rule"/>'
        )
        parts.append(_text(LEFT - 8, y + 4, _short(highest * part / 4), anchor="end"))
    return [*parts, _text(LEFT - 8, TOP - 14, unit, anchor="end")]


def _legend(x: float, y: float, name: str, color: str) -> list[str]:
    mark = f'<rect x="{x:.1f}" y="{y - 10:.1f}" width="11" height="11" class="{color}"/>'
    return [mark, _text(x + 17, y, name)]


def _color(number: int) -> str:
    return f"s{number % len(COLORS)}"


def _round_up(value: float) -> float:
    """So that its quarters are round numbers."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(step * power for step in (1, 1.2, 2, 4, 6, 8, 10) if step * power >= value)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _text(x: float, y: float, text: str, kind: str = "", *, anchor: str = "start") -> str:
    classes = f' class="{kind}"' if kind else ""
    anchored = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{anchored}{classes}>{escape(text)}</text>'


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    light, dark = (
        "".join(f".{_color(n)}{{fill:{c};stroke:{c}}}" for n, c in enumerate(colors))
        for colors in zip(*COLORS, strict=True)
    )
    style = f"{LIGHT}{light}@media(prefers-color-scheme:dark){{{DARK}{dark}}}"
    # A line has no fill; this rule must come last, as all have the same specificity.
    style += ".line{fill:none;stroke-width:2}rect{stroke:none}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">'
        f"<title>{escape(title)}</title><style>{style}</style>"
    )
    ground = f'<rect class="ground" width="{WIDTH}" height="{height:g}" rx="6"/>'
    return "\n".join([head, ground, *parts, "</svg>"]) + "\n"
