"""The page of a plan: what a run would do and need, before anything is triggered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lagbench.adapters.process.processor_speed import this_processor
from lagbench.catalog.catalog import Cell
from lagbench.core.policy.policy import require_kubernetes
from lagbench.core.policy.review.policy_file import review_documents
from lagbench.core.simulation.plan import Plan, cannot_carry, disk_bytes, plan_cell
from lagbench.core.simulation.prediction import Prediction
from lagbench.core.simulation.simulated_world import SimulatedEnvironment
from lagbench.report.bench_page import render_bench_page
from lagbench.report.line_chart import line_chart
from lagbench.report.plan_rows import (
    context_of,
    cron_rows,
    needs_rows,
    predicted_run,
    prediction_rows,
    warnings_of,
    workloads_under_test,
)
from lagbench.report.series import Series

Fields = Mapping[str, Mapping[str, Any]]
"""The schema of each field of the Dag's form, by its name."""


def render_plan_form(
    asked: Mapping[str, str], fields: Fields, *, prefix: str, problem: str = "", **content: Any
) -> str:
    """Return the page with its form alone: nothing is asked yet, or it is refused.

    :param asked: the values of the fields.
    """
    return render_bench_page(
        "plan",
        title="Plan",
        here="plan",
        prefix=prefix,
        asked=asked,
        problem=problem,
        fields=fields,
        options={
            name: [(one, one) for one in field["enum"] if one]
            for name, field in fields.items()
            if "enum" in field
        },
        **{"groups": (), "review": None, "cell": None, "conf": "", "lack": "", **content},
    )


def render_plan(
    asked: Mapping[str, str],
    fields: Fields,
    cell: Cell,
    *,
    prefix: str,
    is_embedded: bool,
    conf: Mapping[str, Any],
) -> str:
    """Return the page of a checked cell: prediction, needs, and the findings of its policy.

    It simulates, which takes seconds.

    :param is_embedded: the bench is on this machine, which may be too small.
    :param conf: starts the same run by Trigger.
    :raises WrongInput: its policy needs a newer Kubernetes than lagbench follows.
    """
    for _, policy in cell.policies:
        require_kubernetes(policy)
    plans = [plan_cell(group.scenario, group.policy) for group in cell.groups]
    lack, machine = "", this_processor() if is_embedded else None
    if machine is not None:
        lack = cannot_carry(*plans, cores=machine.cores, speed=machine.speed)
    manifests = [policy.manifest for _, policy in cell.policies]
    return render_plan_form(
        asked,
        fields,
        prefix=prefix,
        cell=cell,
        lack=lack,
        groups=[_group(group, plan) for group, plan in zip(cell.groups, plans, strict=True)],
        review=review_documents(
            manifests,
            where=cell.policy_name,
            context=context_of(cell.scenario),
            workloads=workloads_under_test(cell.scenario.consumer),
        ),
        disk=disk_bytes(plans),
        conf=json.dumps(conf, ensure_ascii=False),
    )


def _group(group: Cell, plan: Plan) -> dict[str, Any]:
    predicted, seconds = predicted_run(group)
    needs = needs_rows(group.scenario, plan)
    needs += cron_rows(group.policy, SimulatedEnvironment().starts_at_seconds, plan.stream_seconds)
    return {
        "title": f"{group.scenario.name} with {group.policy_name}",
        "prediction": prediction_rows(plan, predicted, seconds),
        "slos": predicted.slos,
        "phases": predicted.phases,
        "needs": needs,
        "warnings": warnings_of(group.scenario, plan, predicted),
        "charts": _charts(plan, predicted),
    }


def _charts(plan: Plan, predicted: Prediction) -> Sequence[Mapping[str, Any]]:
    """Return the pictures of the simulated run; none: an observation has no course."""
    course = predicted.course
    if course is None:
        return ()
    seconds = course.every_seconds * np.arange(len(course.lag), dtype=np.float64)
    lines = (("Lag, messages", course.lag), ("Replicas", course.replicas))
    spikes = [(one.start_seconds, one.end_seconds) for one in plan.spikes]
    return [
        chart
        for title, values in lines
        if (
            chart := line_chart(
                title,
                {"run-1": ("simulated", Series(seconds, np.array(values, dtype=np.float64)))},
                spikes=spikes,
            )
        )
    ]
