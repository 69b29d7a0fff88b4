"""Find changes of the replicas that the run's policy did not make.

The autoscaler of the bench reports each of its steps. On a cluster the field manager names the
writer, and the HPA its step in an event and in its status.
"""

from __future__ import annotations

from collections.abc import Iterator

from lagbench.core.measures.doubts.window import Window
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.replicas import ReplicaChange
from lagbench.core.measures.run_evidence import RunEvidence
from lagbench.core.telemetry import HpaSample

_SHOWN_WITHIN_NS = 2 * NANOSECONDS
"""An HPA writes its status after the step, with a stamp in whole seconds."""


def foreign_steps(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield each change of replicas by another than the policy, or without an author on record."""
    for change in window.changes:
        if change.at < window.from_at:
            continue
        step = f"{change.replicas_before} to {change.replicas_after} replicas"
        when = window.when(change.at)
        if change.by == "user":
            author = change.reason or "written by another client"
            yield f"{step} {when}: {author}, not by the policy"
        elif change.by == "unknown" and not _is_by_the_hpa(run, change):
            unsure = f" (in the {change.precision_seconds:.1f} s before)"
            yield f"{step} {when}{unsure}: no record shows who scaled"
        elif change.by == "keda" and not run.policy_at(change.at).applied.lets_keda_write(
            change.replicas_before, change.replicas_after
        ):
            yield f"{step} {when}: written by KEDA, which the policy lets scale only to and from 0"


def _is_by_the_hpa(run: RunEvidence, change: ReplicaChange) -> bool:
    """Return whether the status of an HPA has this step; its writer was not watched."""
    since_at = change.at - round(change.precision_seconds * NANOSECONDS) - _SHOWN_WITHIN_NS
    return any(
        isinstance(record, HpaSample)
        and record.desired == change.replicas_after
        and record.last_scaled_at is not None
        and since_at <= record.last_scaled_at <= change.at + _SHOWN_WITHIN_NS
        for record in run.records
    )
