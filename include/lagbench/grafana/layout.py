"""Describe graphs and place them on the dashboard, from left to right, row by row.

A panel is the JSON object that Grafana reads; fields that are left out have Grafana's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "prometheus"}
"""The data source, by the uid of its provisioning."""
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
Json = dict[str, Any]
Unit = Literal["short", "none", "cps", "reqps", "s", "bytes", "percentunit"]


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph: queries as (expression, name of its series)."""

    title: str
    description: str
    queries: Sequence[tuple[str, str]]
    unit: Unit = "short"
    style: Mapping[str, Any] = field(default_factory=lambda: LINE)
    overrides: Sequence[Json] = ()
    width: int = 8
    height: int = 8

    def panel(self, number: int, place: Json) -> Json:
        """Return the graph as a panel."""
        defaults = {"unit": self.unit, "min": 0.0, "custom": self.style}
        return {
            "id": number,
            "type": "timeseries",
            "title": self.title,
            "description": self.description,
            "gridPos": place,
            "datasource": DATASOURCE,
            "fieldConfig": {"defaults": defaults, "overrides": self.overrides},
            "options": {
                "legend": {"showLegend": True},
                "tooltip": {"mode": "multi", "sort": "desc"},
            },
            "targets": _targets(self.queries),
        }


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

    def panel(self, number: int, place: Json) -> Json:
        """Return the states as a panel."""
        texts = {
            "1": {"index": 0, "text": self.one, "color": "green"},
            "0": {"index": 1, "text": self.zero, "color": "red"},
        }
        defaults = {
            "unit": "none",
            "custom": {"fillOpacity": 70},
            "mappings": [{"type": "value", "options": texts}],
        }
        return {
            "id": number,
            "type": "state-timeline",
            "title": self.title,
            "description": self.description,
            "gridPos": place,
            "datasource": DATASOURCE,
            "fieldConfig": {"defaults": defaults, "overrides": []},
            "options": {"showValue": "never", "legend": {"showLegend": False}},
            "targets": _targets(self.queries),
        }


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the panels below it."""

    title: str
    panels: Sequence[Graph | States]


def series(name: str, *, unit: Unit, color: str, **style: Any) -> Json:
    """Return the override of one series of a graph."""
    look = {f"custom.{field}": value for field, value in style.items()}
    fixed = {"mode": "fixed", "fixedColor": color}
    return _override("byName", name, {"unit": unit, "color": fixed, **look})


def dashed(pattern: str) -> Json:
    """Return dashed lines for the series whose names match ``pattern``."""
    return _override("byRegexp", pattern, {"custom.lineStyle": _DASHED})


def _override(matcher: str, options: str, fields: Mapping[str, Any]) -> Json:
    properties = [{"id": name, "value": value} for name, value in fields.items()]
    return {"matcher": {"id": matcher, "options": options}, "properties": properties}


def placed(sections: Sequence[Section]) -> list[Json]:
    """Return every panel with its number and place."""
    found: list[Json] = []
    top = 0
    for section in sections:
        heading = {
            "id": len(found) + 1,
            "type": "row",
            "title": section.title,
            "gridPos": {"h": _ROW_HEIGHT, "w": COLUMNS, "x": 0, "y": top},
            "collapsed": False,
            "panels": [],
        }
        found.append(heading)
        top += _ROW_HEIGHT
        left = tallest = 0
        for graph in section.panels:
            if left + graph.width > COLUMNS:
                top, left, tallest = top + tallest, 0, 0
            place = {"h": graph.height, "w": graph.width, "x": left, "y": top}
            found.append(graph.panel(len(found) + 1, place))
            left, tallest = left + graph.width, max(tallest, graph.height)
        top += tallest
    return found


def _targets(queries: Sequence[tuple[str, str]]) -> list[Json]:
    return [
        {"refId": chr(ord("A") + place), "expr": expression, "legendFormat": name}
        for place, (expression, name) in enumerate(queries)
    ]
