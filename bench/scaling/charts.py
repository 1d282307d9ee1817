"""Small charts as SVG: lines and bars, readable on light and dark pages."""

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 40, 44
COLORS = ("#2f6fb4", "#c2571a", "#3b8f4a", "#8a4fa3", "#8c6d1f")
INK = "#7a7a7a"


def lines(title: str, x: Sequence[str], series: Mapping[str, Sequence[float]], *, unit: str) -> str:
    """One line for each series; the places on the x axis have the same distance."""
    most = _round_above(max((value for values in series.values() for value in values), default=1))
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    step = wide / max(len(x) - 1, 1)
    parts = [_text(LEFT, 20, title, bold=True), *_grid(most, wide, high, unit)]
    for place, name in enumerate(x):
        parts.append(_text(LEFT + place * step, HEIGHT - BOTTOM + 18, name, anchor="middle"))
    for number, (name, values) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        points = [
            (LEFT + place * step, TOP + high * (1 - value / most))
            for place, value in enumerate(values)
        ]
        drawn = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{color}"/>' for a, b in points]
        parts.append(_text(WIDTH - RIGHT + 12, TOP + 14 + 20 * number, name, color=color))
    return _svg(HEIGHT, title, parts)


def curves(
    title: str, x: Sequence[float], series: Mapping[str, Sequence[float]], *, unit: str, x_unit: str
) -> str:
    """Like `lines`, of measurements at any times; `x` grows from 0."""
    most = _round_above(max((value for values in series.values() for value in values), default=1))
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    last = max(x[-1], 1e-9)
    parts = [_text(LEFT, 20, title, bold=True), *_grid(most, wide, high, unit)]
    for part in range(5):
        name = f"{_short(last * part / 4)} {x_unit}"
        place = LEFT + wide * part / 4
        parts.append(_text(place, HEIGHT - BOTTOM + 18, name, anchor="middle"))
    for number, (name, values) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        drawn = " ".join(
            f"{LEFT + wide * at / last:.1f},{TOP + high * (1 - value / most):.1f}"
            for at, value in zip(x, values, strict=True)
        )
        parts.append(
            f'<polyline points="{drawn}" fill="none" stroke="{color}" stroke-width="1.5"/>'
        )
        parts.append(_text(WIDTH - RIGHT + 12, TOP + 14 + 20 * number, name, color=color))
    return _svg(HEIGHT, title, parts)


def below_each_other(title: str, drawings: Sequence[str]) -> str:
    """Several of the same height as one."""
    placed = [
        drawing.replace("<svg ", f'<svg y="{HEIGHT * number}" height="{HEIGHT}" ', 1)
        for number, drawing in enumerate(drawings)
    ]
    return _svg(HEIGHT * len(drawings), title, placed)


def bars(
    title: str, rows: Mapping[str, Sequence[float]], names: Sequence[str], *, unit: str
) -> str:
    """A group of bars for each row, one for each name. Square roots, so that small ones show."""
    most = max((value for values in rows.values() for value in values), default=1.0) or 1.0
    left, each, gap = 170, 11, 12
    group = each * len(names) + gap
    height = TOP + 20 + group * len(rows) + 10
    parts = [_text(12, 20, title, bold=True)]
    for number, name in enumerate(names):
        color = COLORS[number % len(COLORS)]
        parts.append(_text(left + 90 * number, 40, name, color=color))
    for row, (name, values) in enumerate(rows.items()):
        top = TOP + 16 + group * row
        parts.append(_text(left - 10, top + each * len(names) / 2 + 4, name, anchor="end"))
        for number, value in enumerate(values):
            wide = (WIDTH - left - 80) * (value / most) ** 0.5
            y, color = top + each * number, COLORS[number % len(COLORS)]
            parts.append(
                f'<rect x="{left}" y="{y}" width="{wide:.1f}" height="{each - 2}" fill="{color}"/>'
            )
            shown = f"{_short(value)} {unit}"
            parts.append(_text(left + wide + 6, y + each - 2, shown, size=10))
    return _svg(height, title, parts)


def _grid(most: float, wide: float, high: float, unit: str) -> list[str]:
    parts = []
    for part in range(5):
        y = TOP + high * (1 - part / 4)
        parts.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + wide}" y2="{y:.1f}" stroke="{INK}"'
            ' stroke-opacity="0.3"/>'
        )
        parts.append(_text(LEFT - 8, y + 4, _short(most * part / 4), anchor="end"))
    return [*parts, _text(LEFT - 8, TOP - 8, unit, anchor="end")]


def _round_above(value: float) -> float:
    """So that a quarter of it is a number to read."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(step * power for step in (1, 1.2, 2, 4, 6, 8, 10) if step * power >= value)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    color: str = INK,
    size: int = 12,
    bold: bool = False,
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
        f' fill="{color}"{weight}>{escape(text)}</text>'
    )


def _svg(height: int, title: str, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' font-family="sans-serif"><title>{escape(title)}</title>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"
