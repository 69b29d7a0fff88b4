"""Define the board of one run: from the events to the decisions behind them."""

from __future__ import annotations

from lagbench.grafana.group_sections import AUTOSCALER, GROUP
from lagbench.grafana.layout import DASHED, Graph, Section, placed, series
from lagbench.grafana.model import (
    Annotation,
    Annotations,
    Board,
    Templating,
    Variable,
    VariableQuery,
)
from lagbench.grafana.queries import NAMESPACE, RUN, rate
from lagbench.grafana.work_sections import BENCH, LAG_SCALER, WORK

_REPLICAS = {"axisPlacement": "right", "axisLabel": "replicas", "lineInterpolation": "stepAfter"}
_ACKED = rate("lagbench_load_events_total", 'stage="acked"')
_RATE = {"axisPlacement": "right", "axisLabel": "events per second"}


def board() -> Board:
    """Return the board."""
    return Board(
        uid="lagbench",
        title="lagbench: a run",
        description="Lag, replicas and throughput of a run on one time axis, with its phases; "
        "then who decided what, and why.",
        tags=["lagbench", "kafka", "keda"],
        templating=Templating(
            list=[
                _variable("namespace", "Namespace", "lagbench_group_members", sort=1),
                _variable("run_id", "Run", f"lagbench_group_members{{{NAMESPACE}}}", sort=2),
            ]
        ),
        annotations=Annotations(
            list=[
                Annotation(
                    name="Phases",
                    enable=True,
                    icon_color="blue",
                    expr=f"lagbench_phase{{{RUN}}}",
                    title_format="{{phase}}",
                ),
                Annotation(
                    name="Spike",
                    enable=True,
                    icon_color="red",
                    expr=f'lagbench_load_planned_rate{{{RUN},step="spike_start"}}',
                    title_format="spike",
                ),
                Annotation(
                    name="Rebalances",
                    enable=False,
                    icon_color="yellow",
                    expr=f'lagbench_group_state{{{RUN},state!~"stable|empty"}}',
                    title_format="{{state}}",
                ),
            ]
        ),
        panels=placed([_OVERVIEW, GROUP, AUTOSCALER, WORK, LAG_SCALER, BENCH]),
    )


def _variable(name: str, label: str, metric: str, *, sort: int) -> Variable:
    query = f"label_values({metric}, {name})"
    return Variable(
        name=name,
        label=label,
        query=VariableQuery(query=query, ref_id=name),
        definition=query,
        sort=1 if sort == 1 else 2,  # 1 ascending, 2 descending: the newest run comes first
    )


_OVERVIEW = Section(
    "The run: lag, replicas and throughput",
    [
        Graph(
            "Lag, replicas and throughput",
            "Lag on the left; replicas and events per second on axes of their own on the right. "
            "Blue regions are the run's phases, red ones the spike as planned. A gap is a reading "
            "that failed, not a zero.",
            [
                (f"sum(lagbench_lag_records{{{RUN}}})", "lag"),
                (f'sum(lagbench_replicas{{{RUN},state="wanted"}})', "replicas wanted"),
                (f'sum(lagbench_replicas{{{RUN},state="ready"}})', "replicas ready"),
                (f"sum(lagbench_load_planned_rate{{{RUN}}})", "planned/s"),
                (f"sum({_ACKED})", "sent/s"),
                (f"sum(consume_rate{{{RUN}}})", "processed/s"),
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
