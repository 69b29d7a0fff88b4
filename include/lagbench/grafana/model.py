"""The part of Grafana's dashboard model that the board uses; omitted fields have their defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

SCHEMA_VERSION = 41
"""Grafana 12's; a newer Grafana migrates it when it loads the file."""
COLUMNS = 24

Unit = Literal["short", "none", "cps", "reqps", "s", "bytes", "percentunit"]


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class Datasource(_Model):
    """The data source, by the uid of its provisioning."""

    type: Literal["prometheus"] = "prometheus"
    uid: Literal["prometheus"] = "prometheus"


class GridPos(_Model):
    """The place of a panel, in cells of 24 columns."""

    h: int = Field(gt=0)
    w: int = Field(gt=0, le=COLUMNS)
    x: int = Field(ge=0, lt=COLUMNS)
    y: int = Field(ge=0)


class Target(_Model):
    """One query and the names of its series."""

    ref_id: str
    expr: str
    legend_format: str


class Matcher(_Model):
    """The series of an override."""

    id: Literal["byName", "byRegexp"] = "byName"
    options: str


class Property(_Model):
    """One field of an override."""

    id: str
    value: Any


class Override(_Model):
    """Fields that differ for some series."""

    matcher: Matcher
    properties: Sequence[Property]


class FieldDefaults(_Model):
    """The display of values."""

    unit: Unit
    min: float | None = None
    custom: dict[str, Any]
    mappings: Sequence[dict[str, Any]] | None = None


class FieldConfig(_Model):
    """The display of values, and its overrides for some series."""

    defaults: FieldDefaults
    overrides: Sequence[Override] = ()


class Panel(_Model):
    """A graph, or a heading if its type is row."""

    id: int
    type: Literal["row", "timeseries", "state-timeline"]
    title: str
    description: str | None = None
    grid_pos: GridPos
    datasource: Datasource | None = None
    field_config: FieldConfig | None = None
    options: dict[str, Any] | None = None
    targets: Sequence[Target] | None = None
    collapsed: bool | None = None
    panels: Sequence[Any] | None = None


class VariableQuery(_Model):
    """A query for the values of a variable."""

    query: str
    ref_id: str


class Variable(_Model):
    """A choice at the top of the board, queried again whenever the time range changes."""

    name: str
    label: str
    type: Literal["query"] = "query"
    datasource: Datasource = Datasource()
    query: VariableQuery
    definition: str
    refresh: Literal[2] = 2
    sort: Literal[1, 2]


class Annotation(_Model):
    """Times at which a query has a value above zero, shown on every graph."""

    name: str
    enable: bool
    icon_color: str
    datasource: Datasource = Datasource()
    expr: str
    step: str = "2s"  # the scrape interval: adjacent values become one region
    title_format: str


class Templating(_Model):
    """All variables."""

    list: Sequence[Variable]


class Annotations(_Model):
    """All annotations."""

    list: Sequence[Annotation]


class TimeRange(_Model):
    """The time range that is shown when the board opens."""

    start: str = Field(default="now-30m", alias="from")
    to: str = "now"


class Board(_Model):
    """A dashboard."""

    uid: str
    title: str
    description: str
    tags: Sequence[str]
    schema_version: int = SCHEMA_VERSION
    version: int = 1
    editable: bool = False
    graph_tooltip: Literal[1] = 1  # one crosshair over all graphs
    time: TimeRange = TimeRange()
    refresh: str = "5s"
    timezone: str = "browser"
    templating: Templating
    annotations: Annotations
    panels: Sequence[Panel]

    def to_json(self) -> str:
        """Return the file's text."""
        return self.model_dump_json(by_alias=True, exclude_none=True, indent=2) + "\n"
