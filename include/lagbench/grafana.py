"""The Grafana dashboard of a run; ``python -m lagbench.grafana`` writes the committed file.

A panel is a row below: title, unit, a query for each name of a series, description.
``$namespace``, ``$run_id`` and ``$run_group`` are chosen at the top of the dashboard.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lagbench.project import PROJECT_ROOT

COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "prometheus"}
"""By the uid of its provisioning."""
SCHEMA_VERSION = 41
"""Grafana 12's; a newer Grafana migrates it when it loads the file."""
NAMESPACE = 'namespace="$namespace"'
RUN = f'{NAMESPACE},run_id="$run_id"'
OF_GROUP = f'{RUN},run_group="$run_group"'
"""One consumer group of the run: both groups' recorders export the load, and the same names."""
Json = dict[str, Any]

_DASHED = {"fill": "dash", "dash": [8, 6]}
_LINE: Json = {"showPoints": "never"}
_STEP: Json = {**_LINE, "lineInterpolation": "stepAfter"}
_STACK: Json = {**_LINE, "fillOpacity": 40, "stacking": {"mode": "normal", "group": "A"}}


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph; with ``states`` one line of colour per series: the texts of 1 and 0."""

    title: str
    unit: str
    queries: Mapping[str, str]
    description: str
    style: Mapping[str, Any] = field(default_factory=lambda: _LINE)
    overrides: Sequence[Json] = ()
    width: int = 8
    height: int = 8
    states: tuple[str, str] | None = None

    def as_json(self, number: int, x: int, y: int) -> Json:
        """Return the object that Grafana reads; fields that are left out have its defaults."""
        kind, tooltip = "timeseries", {"mode": "multi", "sort": "desc"}
        options: Json = {"legend": {"showLegend": True}, "tooltip": tooltip}
        defaults: Json = {"unit": self.unit, "min": 0.0, "custom": self.style}
        if self.states is not None:
            kind = "state-timeline"
            options = {"showValue": "never", "legend": {"showLegend": False}}
            yes, no = self.states
            texts = {
                "1": {"index": 0, "text": yes, "color": "green"},
                "0": {"index": 1, "text": no, "color": "red"},
            }
            mappings = [{"type": "value", "options": texts}]
            defaults = {"unit": self.unit, "custom": {"fillOpacity": 70}, "mappings": mappings}
        return {
            "id": number,
            "type": kind,
            "title": self.title,
            "description": self.description,
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "datasource": DATASOURCE,
            "fieldConfig": {"defaults": defaults, "overrides": self.overrides},
            "options": options,
            "targets": [
                {"refId": chr(ord("A") + place), "expr": _promql(query), "legendFormat": name}
                for place, (name, query) in enumerate(self.queries.items())
            ],
        }


def _promql(query: str) -> str:
    """Fill in what a query stands for: GROUP, RUN and NAMESPACE in braces, RATE in brackets."""
    for name, text in (("GROUP", OF_GROUP), ("NAMESPACE", NAMESPACE), ("RUN", RUN)):
        query = query.replace(f"{{{name}", f"{{{text}")
    return query.replace("[RATE]", "[$__rate_interval]")


def _slope(gauge: str) -> str:
    """Return a gauge's growth per second; a falling gauge counts as 0."""
    return f"clamp_min(deriv({gauge}{{GROUP}}[RATE]), 0)"


def _increase(counter: str, by: str) -> str:
    return f"sum by ({by}) (increase({counter}[1m]))"


def _quantile(share: float, histogram: str, by: str) -> str:
    rates = f"rate({histogram}_bucket{{GROUP}}[1m])"
    return f"histogram_quantile({share}, sum by ({by}) ({rates}))"


def _override(matcher: str, options: str, fields: Mapping[str, Any]) -> Json:
    properties = [{"id": name, "value": value} for name, value in fields.items()]
    return {"matcher": {"id": matcher, "options": options}, "properties": properties}


def _series(name: str, unit: str, color: str, **style: Any) -> Json:
    fixed = {"mode": "fixed", "fixedColor": f"semi-dark-{color}"}
    look = {f"custom.{field}": value for field, value in style.items()}
    return _override("byName", name, {"unit": unit, "color": fixed, **look})


_STEPS = {"lineInterpolation": "stepAfter"}
_ON_REPLICAS = {"axisPlacement": "right", "axisLabel": "replicas", **_STEPS}
_ON_RATE = {"axisPlacement": "right", "axisLabel": "events per second"}
_OVERRIDES = [
    _series("lag", "short", "orange", lineWidth=2, fillOpacity=10, axisLabel="lag, records"),
    _series("replicas wanted", "none", "purple", **_ON_REPLICAS, lineStyle=_DASHED),
    _series("replicas ready", "none", "purple", **_ON_REPLICAS, lineWidth=2),
    _series("planned/s", "cps", "blue", **_ON_RATE, **_STEPS, lineStyle=_DASHED),
    _series("sent/s", "cps", "blue", **_ON_RATE),
    _series("processed/s", "cps", "green", **_ON_RATE, lineWidth=2),
]

SECTIONS: Mapping[str, Sequence[Panel]] = {
    "The run: lag, replicas and throughput": [
        Panel(
            "Lag, replicas and throughput",
            "short",
            {
                "lag": "sum(lagbench_lag_records{GROUP})",
                "replicas wanted": 'sum(lagbench_replicas{GROUP,state="wanted"})',
                "replicas ready": 'sum(lagbench_replicas{GROUP,state="ready"})',
                "planned/s": "sum(lagbench_load_planned_rate{GROUP})",
                "sent/s": 'sum(rate(lagbench_load_events_total{GROUP,stage="acked"}[RATE]))',
                "processed/s": "sum(consume_rate{GROUP})",
            },
            "Lag on the left; replicas and events per second on axes of their own on the right. "
            "Blue regions are the run's phases, red ones the spike as planned. A gap is a failed "
            "reading, not a zero.",
            overrides=_OVERRIDES,
            width=24,
            height=12,
        )
    ],
    "Partitions and the group": [
        Panel(
            "Lag by partition",
            "short",
            {"{{partition}}": "lagbench_partition_lag_records{GROUP}"},
            "A hot partition drains at one consumer's pace, whatever the replicas.",
        ),
        Panel(
            "Committed per second by partition",
            "cps",
            {"{{partition}}": _slope("lagbench_partition_committed_offset")},
            "Slope of the committed offset; flat means that no consumer works on the partition.",
        ),
        Panel(
            "Written per second by partition",
            "cps",
            {"{{partition}}": _slope("lagbench_partition_end_offset")},
            "Slope of the end offset: the spread of the keys.",
        ),
        Panel(
            "Members and rebalances",
            "short",
            {
                "members": "sum(lagbench_group_members{GROUP})",
                "idle members": "sum(lagbench_group_idle_members{GROUP})",
                "rebalances (most seen by a pod)": "max(increase(rebalances_total{GROUP}[RATE]))",
            },
            "Members of the group, and those without a partition. All pods report a rebalance, "
            "and a new pod's first one is missing: the pod that saw the most counts.",
            _STEP,
        ),
        Panel(
            "Rebalance duration",
            "s",
            {
                "p50": _quantile(0.5, "rebalance_duration_seconds", "le"),
                "p99": _quantile(0.99, "rebalance_duration_seconds", "le"),
            },
            "From the first partition given up until the new assignment is in force, last minute.",
        ),
        Panel(
            "State of the group",
            "none",
            {"{{state}}": "lagbench_group_state{GROUP}"},
            "As the broker reports it; all states except stable and empty are a rebalance.",
            states=("yes", "no"),
        ),
    ],
    "The autoscaler: HPA and KEDA": [
        Panel(
            "Replicas: decided, wanted, existing, ready",
            "none",
            {
                "decided by {{hpa}}": "lagbench_hpa_desired_replicas{GROUP}",
                "{{state}}": "sum by (state) (lagbench_replicas{GROUP})",
            },
            "The HPA's decision, then its effect on the Deployment.",
            _STEP,
        ),
        Panel(
            "Reading of the HPA, and its target",
            "short",
            {
                "{{metric}} {{type}}": "lagbench_hpa_metric{GROUP}",
                "target of {{metric}} {{type}}": "lagbench_hpa_metric_target{GROUP}",
            },
            "An averageValue is already divided by the replicas: at the target, replicas do not "
            "change.",
            _STEP,
            overrides=[_override("byRegexp", "target of .*", {"custom.lineStyle": _DASHED})],
        ),
        Panel(
            "Conditions of the HPA",
            "none",
            {"{{condition}}": "lagbench_hpa_condition{GROUP}"},
            "AbleToScale, ScalingActive, ScalingLimited as the API server stores them.",
            states=("true", "false"),
        ),
        Panel(
            "KEDA: values of the triggers",
            "short",
            {"{{scaledObject}} {{metric}}": "keda_scaler_metrics_value{NAMESPACE}"},
            "The operator's last readings. Empty on the embedded bench, which has no KEDA.",
            _STEP,
        ),
        Panel(
            "KEDA: latency",
            "s",
            {
                "{{scaler}} {{triggerIndex}}": "keda_scaler_metrics_latency_seconds{NAMESPACE}",
                "scale loop {{resource}}": "keda_internal_scale_loop_latency_seconds{NAMESPACE}",
            },
            "Response time of each trigger, and delay of the scale loop.",
        ),
        Panel(
            "KEDA: errors per minute",
            "short",
            {
                "{{scaler}}": _increase("keda_scaler_detail_errors_total{NAMESPACE}", "scaler"),
                "{{scaledObject}}": _increase(
                    "keda_scaled_object_errors_total{NAMESPACE}", "scaledObject"
                ),
            },
            "Failed readings of triggers, and errors of the ScaledObject.",
        ),
    ],
    "Consumers and load": [
        Panel(
            "Processed per second by consumer",
            "cps",
            {"{{pod}}": "consume_rate{GROUP}"},
            "Stacked: the sum is the group's throughput.",
            _STACK,
        ),
        Panel(
            "Partitions by consumer",
            "none",
            {"{{pod}}": "assigned_partitions{GROUP}"},
            "Stacked: below the number of partitions, some have no owner.",
            {**_STACK, **_STEP},
        ),
        Panel(
            "Busy and CPU share of the consumers",
            "percentunit",
            {
                "busy": "sum(inflight{GROUP}) / sum(lagbench_consumer_concurrency{GROUP})",
                "CPU, mean": "avg(rate(lagbench_consumer_cpu_seconds_total{GROUP}[RATE]))",
                "CPU, highest": "max(rate(lagbench_consumer_cpu_seconds_total{GROUP}[RATE]))",
            },
            "Busy: share of the allowed writes in flight. CPU: of one core, mean and highest.",
        ),
        Panel(
            "Events of the load",
            "cps",
            {"{{stage}}": "sum by (stage) (rate(lagbench_load_events_total{GROUP}[RATE]))"},
            "Planned, sent, acked and failed per second; sent below planned is a late generator.",
        ),
        Panel(
            "Lateness of the load",
            "s",
            {"{{quantile}}": "lagbench_load_lateness_seconds{GROUP}"},
            "Sent after planned, in the last second. A run whose p99 exceeds 100 ms is invalid.",
        ),
        Panel(
            "Records queued and in flight",
            "short",
            {
                "queued": "sum(lagbench_consumer_queued_records{GROUP})",
                "in flight": "sum(inflight{GROUP})",
            },
            "Fetched and not begun; begun and not ended.",
        ),
    ],
    "The lag scaler": [
        Panel(
            "Calls per second",
            "reqps",
            {
                "{{method}} {{code}}": "sum by (method, code) "
                "(rate(lagbench_scaler_requests_total{GROUP}[RATE]))"
            },
            "KEDA's calls by method and gRPC status. Empty without a policy that uses it.",
            width=6,
        ),
        Panel(
            "Time to answer",
            "s",
            {"{{method}}": _quantile(0.99, "lagbench_scaler_request_seconds", "le, method")},
            "The aim is a p99 below 5 ms.",
            width=6,
        ),
        Panel(
            "Age of the newest good sample",
            "s",
            {"{{group}}": "max by (group, topic) (lagbench_scaler_sample_age_seconds{GROUP})"},
            "By group and topic.",
            width=6,
        ),
        Panel(
            "Samples and changed decisions",
            "short",
            {
                "{{result}}": "sum by (result) (rate(lagbench_scaler_samples_total{GROUP}[RATE]))",
                "became {{to}}": _increase("lagbench_scaler_decision_changes_total{GROUP}", "to"),
            },
            "Samples per second by result; objects that became active or inactive.",
            width=6,
        ),
    ],
    "The bench itself": [
        Panel(
            "CPU of the bench's parts",
            "percentunit",
            {"{{component}}": "rate(lagbench_component_cpu_seconds_total{GROUP}[RATE])"},
            "Share of a core: the cost of observing.",
        ),
        Panel(
            "Memory of the bench's parts",
            "bytes",
            {"{{component}}": "lagbench_component_memory_bytes{GROUP}"},
            "Resident set.",
        ),
        Panel(
            "Failed readings and scrapes",
            "short",
            {
                "reading of {{what}}": _increase("lagbench_recorder_gaps_total{GROUP}", "what"),
                "{{app}} not scraped": "count by (app) (up{GROUP} == 0)",
            },
            "Failed readings of the recorder in the last minute; pods that did not answer.",
            _STEP,
        ),
    ],
}
_VARIABLES = (  # name, label, metric, order: 1 is ascending, 2 brings the newest run first
    ("namespace", "Namespace", "lagbench_group_members", 1),
    ("run_id", "Run", "lagbench_group_members{NAMESPACE}", 2),
    ("run_group", "Group", "lagbench_group_members{RUN}", 1),
)
_ANNOTATIONS = (  # name, colour, query, title, whether it is shown at first
    ("Phases", "blue", "lagbench_phase{GROUP}", "{{phase}}", True),
    ("Spike", "red", 'lagbench_load_planned_rate{GROUP,step="spike_start"}', "spike", True),
    (
        "Rebalances",
        "yellow",
        'lagbench_group_state{GROUP,state!~"stable|empty"}',
        "{{state}}",
        False,
    ),
)


def _panels() -> list[Json]:
    """Return a heading for each section, and its panels from left to right, row by row."""
    found: list[Json] = []
    top = 0
    for title, panels in SECTIONS.items():
        place = {"h": 1, "w": COLUMNS, "x": 0, "y": top}
        heading: Json = {"id": len(found) + 1, "type": "row", "title": title, "gridPos": place}
        found.append({**heading, "collapsed": False, "panels": []})
        top += 1
        left = tallest = 0
        for panel in panels:
            if left + panel.width > COLUMNS:
                top, left, tallest = top + tallest, 0, 0
            found.append(panel.as_json(len(found) + 1, left, top))
            left, tallest = left + panel.width, max(tallest, panel.height)
        top += tallest
    return found


def dashboard_text() -> str:
    """Return the text of the committed file."""
    variables = [
        {
            "name": name,
            "label": label,
            "type": "query",
            "datasource": DATASOURCE,
            "query": {"query": _promql(f"label_values({metric}, {name})"), "refId": name},
            "definition": _promql(f"label_values({metric}, {name})"),
            "refresh": 2,  # whenever the time range changes
            "sort": order,
        }
        for name, label, metric, order in _VARIABLES
    ]
    annotations = [
        {
            "name": name,
            "enable": is_enabled,
            "iconColor": color,
            "datasource": DATASOURCE,
            "expr": _promql(expr),
            "step": "2s",  # the scrape interval: adjacent values become one region
            "titleFormat": title,
        }
        for name, color, expr, title, is_enabled in _ANNOTATIONS
    ]
    dashboard = {
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
        "templating": {"list": variables},
        "annotations": {"list": annotations},
        "panels": _panels(),
    }
    return json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    path = PROJECT_ROOT / "include" / "grafana" / "lagbench.json"
    path.write_text(dashboard_text(), encoding="utf-8")
