"""Define the dashboard of one run: from the events to the decisions behind them."""

from __future__ import annotations

import json
from typing import Literal

from lagbench.grafana.group_sections import AUTOSCALER, GROUP
from lagbench.grafana.layout import DASHED, DATASOURCE, Graph, Json, Section, placed, series
from lagbench.grafana.queries import NAMESPACE, OF_GROUP, RUN, rate
from lagbench.grafana.work_sections import BENCH, LAG_SCALER, WORK

SCHEMA_VERSION = 41
"""Grafana 12's; a newer Grafana migrates it when it loads the file."""
_REPLICAS = {"axisPlacement": "right", "axisLabel": "replicas", "lineInterpolation": "stepAfter"}
_ACKED = rate("lagbench_load_events_total", 'stage="acked"')
_RATE = {"axisPlacement": "right", "axisLabel": "events per second"}


def dashboard() -> Json:
    """Return the dashboard as the JSON object that Grafana reads."""
    return {
        "uid": "lagbench",
        "title": "lagbench: a run",
        "description": "Lag, replicas and throughput of a run on one time axis, with its phases; "
        "then the decisions and their reasons.",
        "tags": ["lagbench", "kafka", "keda"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,  # one crosshair over all graphs
        "time": {"from": "now-30m", "to": "now"},
        "refresh": "5s",
        "timezone": "browser",
        "templating": {
            "list": [
                _variable("namespace", "Namespace", "lagbench_group_members", sort=1),
                _variable("run_id", "Run", f"lagbench_group_members{{{NAMESPACE}}}", sort=2),
                _variable("run_group", "Group", f"lagbench_group_members{{{RUN}}}", sort=1),
            ]
        },
        "annotations": {
            "list": [
                _annotation("Phases", "blue", f"lagbench_phase{{{OF_GROUP}}}", title="{{phase}}"),
                _annotation(
                    "Spike",
                    "red",
                    f'lagbench_load_planned_rate{{{OF_GROUP},step="spike_start"}}',
                    title="spike",
                ),
                _annotation(
                    "Rebalances",
                    "yellow",
                    f'lagbench_group_state{{{OF_GROUP},state!~"stable|empty"}}',
                    title="{{state}}",
                    enable=False,
                ),
            ]
        },
        "panels": placed([_OVERVIEW, GROUP, AUTOSCALER, WORK, LAG_SCALER, BENCH]),
    }


def dashboard_text() -> str:
    """Return the text of the file."""
    return json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"


def _variable(name: str, label: str, metric: str, *, sort: Literal[1, 2]) -> Json:
    """Return a choice at the top, queried again whenever the time range changes.

    ``sort`` is 1 for ascending, 2 for descending: the newest run comes first.
    """
    query = f"label_values({metric}, {name})"
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": sort,
    }


def _annotation(name: str, color: str, expr: str, *, title: str, enable: bool = True) -> Json:
    """Return times at which a query has a value above zero, shown on every graph."""
    return {
        "name": name,
        "enable": enable,
        "iconColor": color,
        "datasource": DATASOURCE,
        "expr": expr,
        "step": "2s",  # the scrape interval: adjacent values become one region
        "titleFormat": title,
    }


_OVERVIEW = Section(
    "The run: lag, replicas and throughput",
    [
        Graph(
            "Lag, replicas and throughput",
            "Lag on the left; replicas and events per second on axes of their own on the right. "
            "Blue regions are the run's phases, red ones the spike as planned. A gap is a failed "
            "reading, not a zero.",
            [
                (f"sum(lagbench_lag_records{{{OF_GROUP}}})", "lag"),
                (f'sum(lagbench_replicas{{{OF_GROUP},state="wanted"}})', "replicas wanted"),
                (f'sum(lagbench_replicas{{{OF_GROUP},state="ready"}})', "replicas ready"),
                (f"sum(lagbench_load_planned_rate{{{OF_GROUP}}})", "planned/s"),
                (f"sum({_ACKED})", "sent/s"),
                (f"sum(consume_rate{{{OF_GROUP}}})", "processed/s"),
            ],
            overrides=[
                series(
                    "lag",
                    unit="short",
                    color="semi-dark-orange",
                    lineWidth=2,
                    fillOpacity=10,
                    axisLabel="lag, records",
                ),
                series(
                    "replicas wanted",
                    unit="none",
                    color="semi-dark-purple",
                    **_REPLICAS,
                    **DASHED,
                ),
                series(
                    "replicas ready",
                    unit="none",
                    color="semi-dark-purple",
                    **_REPLICAS,
                    lineWidth=2,
                ),
                series(
                    "planned/s",
                    unit="cps",
                    color="semi-dark-blue",
                    **_RATE,
                    lineInterpolation="stepAfter",
                    **DASHED,
                ),
                series("sent/s", unit="cps", color="semi-dark-blue", **_RATE),
                series("processed/s", unit="cps", color="semi-dark-green", **_RATE, lineWidth=2),
            ],
            width=24,
            height=12,
        )
    ],
)
