"""Read what a chart shows beside the measurement: prediction, limits, causes of steps."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.hpa.hpa_object import HpaSpec
from lagbench.core.live.slo_standings import live_slos
from lagbench.core.measures.measures import Measures
from lagbench.core.measures.model import NANOSECONDS, Ints, Reals
from lagbench.core.policy.policy import POLICY_VERSIONS, Policy
from lagbench.core.policy.step_cause import step_cause
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import HpaSync
from lagbench.core.telemetry.records_of_recorder import HpaSample
from lagbench.errors import LagbenchError, WrongInput
from lagbench.results.cell_run import read_scenario
from lagbench.results.run_prediction import read_prediction

_BUSY_CORES = 0.5
"""A pod that uses more has no other limit than its CPU to be read against."""


def predicted_course(folder: RunFolder, started_at: int | None) -> tuple[Ints, Reals, Reals] | None:
    """Return instants, lag and desired replicas as predicted; None: there is no such prediction.

    It is the prediction with the recorded phase of the HPA's sync, as that of the residuals.
    """
    made = read_prediction(folder)
    course = made and (chosen := made.after or made.before) and chosen.course
    if not course or started_at is None:
        return None
    seconds = course.every_seconds * np.arange(len(course.lag))
    at = started_at + np.rint(seconds * NANOSECONDS).astype(np.int64)
    return at, np.array(course.lag, dtype=np.float64), np.array(course.replicas, dtype=np.float64)


def known_scenario(folder: RunFolder) -> Scenario | None:
    """Return the run's scenario; None: the folder has none that can be read, as kept ones."""
    with suppress(LagbenchError):
        return read_scenario(folder)
    return None


def pod_rate(folder: RunFolder, measures: Measures) -> float | None:
    """Return the messages per second that one pod can do; None: it is not known."""
    if measures.observation is not None:
        return measures.observation.pod_rate_per_second
    scenario = known_scenario(folder)
    return None if scenario is None else scenario.consumer.claimed_pod_rate_per_second


def limits(folder: RunFolder) -> list[dict[str, str | float]]:
    """Return the number of each SLO that has one."""
    scenario = known_scenario(folder)
    slos = live_slos(scenario.slos) if scenario else ()
    return [{"name": slo.name, "number": slo.number} for slo in slos if slo.number is not None]


def has_cpu_to_show(folder: RunFolder, highest: Reals) -> bool:
    """Return whether CPU matters: the policy scales by it, a message costs it, or a pod is busy."""
    hpa, scenario = _hpa(folder), known_scenario(folder)
    is_asked = any(getattr(metric, "name", "") == "cpu" for metric in hpa.metrics) if hpa else False
    return (
        is_asked
        or (scenario is not None and scenario.consumer.cpu_ms > 0)
        or bool(np.nanmax(highest, initial=0.0) >= _BUSY_CORES)
    )


def causes(
    folder: RunFolder, measures: Measures, records: Sequence[TelemetryRecord]
) -> tuple[str, ...]:
    """Return why each change of the replicas came; an empty text: it is not known."""
    decisions = [record for record in records if isinstance(record, HpaSync | HpaSample)]
    swaps = [one.started_at for one in measures.actions if one.kind == "swap_policy"]
    swapped_at = min((at for at in swaps if at is not None), default=None)
    hpa = _hpa(folder)
    return tuple(
        step_cause(
            decisions,
            hpa if swapped_at is None or change.at < swapped_at else None,
            at=change.at,
            before=change.replicas_before,
            after=change.replicas_after,
            reason=change.reason,
        )
        for change in measures.scaling.changes
    )


def _hpa(folder: RunFolder) -> HpaSpec | None:
    """Return the HPA as it was applied; None: the run has none that can be read."""
    path, name = folder.path / "hpa.json", "HorizontalPodAutoscaler"
    if not path.exists():
        return None
    head = {"apiVersion": POLICY_VERSIONS[name], "kind": name, "metadata": {"name": "hpa"}}
    written = {**head, "spec": folder.read_json(path).get("spec")}
    with suppress(WrongInput):  # of another version of Kubernetes, or damaged
        spec = Policy.load(written, where=f"run {folder.reference}: hpa.json").spec
        return spec if isinstance(spec, HpaSpec) else None
    return None
