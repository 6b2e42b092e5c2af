"""Line plots as plain SVG text. Owns: axes, ticks, lines, a legend. Must not know: what is plotted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias
from xml.sax.saxutils import escape

Points: TypeAlias = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 48, 52
COLOURS = ("#1f5fbf", "#c2571a", "#2f8f4e", "#8a3fa0", "#6b6b6b", "#b0861a")


def ticks(top: float, about: int = 6) -> list[float]:
    """Round numbers from 0 to at least `top`, roughly so many."""
    if not (top > 1e-300 and math.isfinite(top)):  # below, a sixth of it may be nothing
        return [0.0, 1.0]
    raw = top / about
    unit = 10 ** math.floor(math.log10(raw))
    size = next(m * unit for m in (1, 2, 5, 10) if m * unit >= raw * 0.999)
    return [k * size for k in range(math.ceil(top / size - 1e-9) + 1)]


def plot(title: str, x_label: str, y_label: str, lines: Mapping[str, Points]) -> str:
    """An SVG document with a line for each name. Both axes begin at 0; the upper one ends a little above the 99th
    hundredth of the values, and what lies above is drawn at the edge, so that one odd value does not flatten the rest.
    """
    xs = [x for points in lines.values() for x, _ in points]
    ys = sorted(y for points in lines.values() for _, y in points)
    across = ticks(max(xs, default=0.0))
    up = ticks(ys[min(len(ys) - 1, len(ys) * 99 // 100)] * 1.1 if ys else 0.0)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        return LEFT + x / across[-1] * wide, TOP + high - min(y, up[-1]) / up[-1] * high

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 20, title, "start", 14),
        _text(LEFT + wide / 2, HEIGHT - 12, x_label),
        f'<g transform="translate(16 {TOP + high / 2:.0f}) rotate(-90)">{_text(0, 0, y_label)}</g>',
    ]
    for value in up:
        _, y = at(0, value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(_text(LEFT - 6, y + 4, f"{value:g}", "end"))
    for value in across:
        x, _ = at(value, 0)
        parts.append(f'<path d="M{x:.1f} {TOP + high}v5" stroke="#444444"/>')
        parts.append(_text(x, TOP + high + 18, f"{value:,.10g}"))
    parts.append(f'<path d="M{LEFT} {TOP}V{TOP + high}H{WIDTH - RIGHT}" fill="none" stroke="#444444"/>')
    for k, (name, points) in enumerate(lines.items()):
        colour = COLOURS[k % len(COLOURS)]
        drawn = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in points)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="1.3"/>')
        x = LEFT + 110 * k
        parts.append(f'<path d="M{x} 36h18" stroke="{colour}" stroke-width="3"/>{_text(x + 24, 40, name, "start")}')
    return "\n".join([*parts, "</svg>", ""])


def _text(x: float, y: float, words: str, anchor: str = "middle", size: int = 12) -> str:
    style = f'text-anchor="{anchor}" font-size="{size}" fill="#222222"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'
