"""Describe graphs and place them on the board, from left to right, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lagbench.grafana.model import (
    COLUMNS,
    Datasource,
    FieldConfig,
    FieldDefaults,
    GridPos,
    Matcher,
    Override,
    Panel,
    Property,
    Target,
    Unit,
)

_ROW_HEIGHT = 1
_DASHED = {"fill": "dash", "dash": [8, 6]}

LINE: Mapping[str, Any] = {"showPoints": "never"}
STEP: Mapping[str, Any] = {**LINE, "lineInterpolation": "stepAfter"}
STACK: Mapping[str, Any] = {
    **LINE,
    "fillOpacity": 40,
    "stacking": {"mode": "normal", "group": "A"},
}
DASHED: Mapping[str, Any] = {"lineStyle": _DASHED}


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph: queries as (expression, name of its series)."""

    title: str
    description: str
    queries: Sequence[tuple[str, str]]
    unit: Unit = "short"
    style: Mapping[str, Any] = field(default_factory=lambda: LINE)
    overrides: Sequence[Override] = ()
    width: int = 8
    height: int = 8

    def panel(self, number: int, place: GridPos) -> Panel:
        """Return the graph as a panel."""
        return Panel(
            id=number,
            type="timeseries",
            title=self.title,
            description=self.description,
            grid_pos=place,
            datasource=Datasource(),
            field_config=FieldConfig(
                defaults=FieldDefaults(unit=self.unit, min=0, custom=dict(self.style)),
                overrides=self.overrides,
            ),
            options={"legend": {"showLegend": True}, "tooltip": {"mode": "multi", "sort": "desc"}},
            targets=_targets(self.queries),
        )


@dataclass(frozen=True, slots=True)
class States:
    """One line of colour per series: 1 is ``one``, 0 is ``zero``, and a gap is unknown."""

    title: str
    description: str
    queries: Sequence[tuple[str, str]]
    one: str
    zero: str
    width: int = 8
    height: int = 8

    def panel(self, number: int, place: GridPos) -> Panel:
        """Return the states as a panel."""
        texts = {
            "1": {"index": 0, "text": self.one, "color": "green"},
            "0": {"index": 1, "text": self.zero, "color": "red"},
        }
        return Panel(
            id=number,
            type="state-timeline",
            title=self.title,
            description=self.description,
            grid_pos=place,
            datasource=Datasource(),
            field_config=FieldConfig(
                defaults=FieldDefaults(
                    unit="none",
                    custom={"fillOpacity": 70},
                    mappings=[{"type": "value", "options": texts}],
                )
            ),
            options={"showValue": "never", "legend": {"showLegend": False}},
            targets=_targets(self.queries),
        )


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the panels below it."""

    title: str
    panels: Sequence[Graph | States]


def series(name: str, *, unit: Unit, color: str, **style: Any) -> Override:
    """Return the override of one series of a graph."""
    look = [Property(id=f"custom.{field}", value=value) for field, value in style.items()]
    fixed = {"mode": "fixed", "fixedColor": color}
    return Override(
        matcher=Matcher(options=name),
        properties=[Property(id="unit", value=unit), Property(id="color", value=fixed), *look],
    )


def dashed(pattern: str) -> Override:
    """Return dashed lines for the series whose names match ``pattern``."""
    return Override(
        matcher=Matcher(id="byRegexp", options=pattern),
        properties=[Property(id="custom.lineStyle", value=_DASHED)],
    )


def placed(sections: Sequence[Section]) -> list[Panel]:
    """Return every panel with its number and place."""
    found: list[Panel] = []
    top = 0
    for section in sections:
        heading = GridPos(h=_ROW_HEIGHT, w=COLUMNS, x=0, y=top)
        number = len(found) + 1
        found.append(
            Panel(
                id=number,
                type="row",
                title=section.title,
                grid_pos=heading,
                collapsed=False,
                panels=[],
            )
        )
        top += _ROW_HEIGHT
        left = tallest = 0
        for graph in section.panels:
            if left + graph.width > COLUMNS:
                top, left, tallest = top + tallest, 0, 0
            place = GridPos(h=graph.height, w=graph.width, x=left, y=top)
            found.append(graph.panel(len(found) + 1, place))
            left, tallest = left + graph.width, max(tallest, graph.height)
        top += tallest
    return found


def _targets(queries: Sequence[tuple[str, str]]) -> list[Target]:
    return [
        Target(ref_id=chr(ord("A") + place), expr=expression, legend_format=name)
        for place, (expression, name) in enumerate(queries)
    ]
