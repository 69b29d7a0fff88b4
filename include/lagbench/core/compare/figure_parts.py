"""Parts of a picture as SVG: texts, lines, an axis and a legend, narrow enough for a telephone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, LEFT, RIGHT, HEAD, AXIS, DOT = 480, 24, 30, 26, 30, 4.5  # pixels
_LETTER, _KEY, _BETWEEN, _LINE = 6.7, 15, 14, 20

INK, GRID = "#6e7781", "#8b949e55"
HUES = ("#2f81c7", "#d9730d", "#1f9d76", "#9a67c9", "#b0851f", "#c2517f", "#4e8f2f", INK)
"""Seen on white and on black."""

Place = Callable[[float], float]
Drawing = tuple[list[str], float]
"""The parts, and how high they are."""
Block = Callable[[float], Drawing]
"""Draws from a height on."""
Key = tuple[Callable[[float, float], str], str]
"""A function that draws around a point, and the meaning of that."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a dot is drawn, and what the legend says of it."""

    fill: str
    stroke: str
    said: str


def circle(look: Look, x: float, y: float, said: str = "") -> str:
    """Return a dot; ``said`` is what a pointer on it shows."""
    at = f'cx="{x:.1f}" cy="{y:.1f}" r="{DOT}"'
    colours = f'fill="{look.fill}" fill-opacity="0.75" stroke="{look.stroke}" stroke-width="1.5"'
    title = f"<title>{escape(said)}</title>" if said else ""
    return f"<circle {at} {colours}>{title}</circle>"


def line(x: float, y: float, height: float, stroke: str, *, width: int = 1, dash: str = "") -> str:
    """Return a line downwards."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="M{x:.1f} {y:g}v{height:g}" stroke="{stroke}" stroke-width="{width}"{dashed}/>'


def text(x: float, y: float, words: str, *, anchor: str = "start", more: str = "") -> str:
    """Return words; ``more`` are attributes."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def heading(top: float, words: str) -> str:
    """Return the title of a block."""
    return text(0, top + 16, words, more=' font-weight="bold"')


def ticks_of(values: Sequence[float], digits: int) -> list[float]:
    """Return round numbers around ``values``, from 0 if these are not far above it."""
    low, high = min(values), max(values)
    if low > 0 and low < 0.6 * high:
        low = 0.0
    rough = max((high - low) / 4, 10.0**-digits)
    power = 10.0 ** floor(log10(rough))
    step = next(power * nice for nice in (1, 2, 5, 10) if power * nice >= rough * 0.999)
    first, last = floor(low / step), ceil(high / step)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def scale(ticks: Sequence[float], begin: float = LEFT, end: float = WIDTH - RIGHT) -> Place:
    """Return the place of a value, from ``begin`` at the first tick to ``end`` at the last."""
    return lambda value: begin + (value - ticks[0]) / (ticks[-1] - ticks[0]) * (end - begin)


def axis(
    ticks: Sequence[float], place: Place, top: float, bottom: float, number: Callable[[float], str]
) -> Iterator[str]:
    """Yield a line for each tick, with its number below."""
    for value in ticks:
        yield line(place(value), top, bottom - top, GRID)
        yield text(place(value), bottom + 16, number(value), anchor="middle")


def legend(keys: Sequence[Key], top: float) -> Drawing:
    """Return what each thing drawn means, in as many lines as that needs."""
    parts, x, y = list[str](), 0.0, top + 14
    for draw, words in keys:
        wide = _KEY + _LETTER * len(words)
        if x and x + wide > WIDTH:
            x, y = 0.0, y + _LINE
        parts += [draw(x + DOT, y - 4), text(x + _KEY, y, words)]
        x += wide + _BETWEEN
    return parts, y + _LINE - 14 - top if keys else 0.0
