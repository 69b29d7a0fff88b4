"""Find what scaled the workload that was not the policy that the run applied.

The recorder reads ScaledObjects and HPAs of the workload once a second, and reports a changed spec
at once. A pause or a fallback that the applied manifest declares is the policy. A deviation that
was undone before a sync used it is a note: nothing was decided by it.

The autoscaler of the bench reports each of its steps. On a cluster the field manager names the
writer of a step, and the HPA its step in an event and in its status.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from lagbench.core.measures.evidence.lag_readings import gaps_between
from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.measures.replica_steps import ReplicaChange
from lagbench.core.measures.run_evidence import RunEvidence
from lagbench.core.telemetry.records_of_programs import HpaSync
from lagbench.core.telemetry.records_of_recorder import (
    HpaSample,
    LagSample,
    ReadGap,
    ReplicaSample,
    ScaledObjectSample,
    ScalingObject,
)

_OUTAGES = (
    *("broker_restart", "broker_unreachable", "lag_scaler_down", "grow_partitions"),
    "swap_policy",  # the new one may read what cannot be read
)
"""Actions after which KEDA may scale by the fallback."""
_RECOVERED_NS = 90 * NANOSECONDS
"""KEDA leaves the fallback at its next poll, by default 30 s later, with one that may fail."""
_SHOWN_WITHIN_NS = 2 * NANOSECONDS
"""An HPA writes its status after the step, with a stamp in whole seconds."""
_SHORT = {"HorizontalPodAutoscaler": "HPA"}
Reading = HpaSample | ScaledObjectSample | ScalingObject


@dataclass(frozen=True, slots=True)
class Deviation:
    """An object was not the applied one from ``at`` on."""

    text: str
    at: int
    is_used: bool  # a sync may have used it


def not_in_force(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield how the policy in force differed from the applied one while syncs used it."""
    yield from (one.text for one in _deviations(run, window) if one.is_used)


def undone_edits(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield the deviations that no sync used."""
    for one in _deviations(run, window):
        if not one.is_used:
            yield f"{one.text}: it was undone before a sync used it"


def _deviations(run: RunEvidence, window: Window) -> list[Deviation]:
    found = [*_differing(run, window), *_other_autoscalers(run, window), *_missing(run, window)]
    for text in _at_the_end(run, window):
        if not any(one.is_used and one.text.startswith(f"{text},") for one in found):
            found.append(Deviation(f"{text}, at the end", window.until_at, is_used=True))
    return sorted(found, key=lambda one: one.at)


def _differing(run: RunEvidence, window: Window) -> Iterator[Deviation]:
    """Yield the times in which readings show an object that differs, with both values."""
    series: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for record in run.records:
        if not isinstance(record, Reading) or run.policies.is_swapping(record.at):
            continue
        of = (type(record).__name__, record.name)
        if window.holds(record.at):
            series.setdefault(of, []).append((record.at, _problem(record, run)))
        elif isinstance(record, ScalingObject) and record.at < window.from_at:
            series[of] = [(window.from_at, _problem(record, run))]  # sent when it changed: it lasts
    named: set[tuple[str, int]] = set()
    for readings in series.values():
        for text, at, back_at in _spans(readings):
            is_used = _is_used(run, at, back_at or window.until_at)
            until = "" if back_at is None else f" to {window.second(back_at)}"
            if all(text != told or abs(at - since) > NANOSECONDS for told, since in named):
                yield Deviation(f"{text}, from {window.second(at)}{until}", at, is_used)
            named.add((text, at))


def _spans(readings: Iterable[tuple[int, str]]) -> Iterator[tuple[str, int, int | None]]:
    """Yield each deviation with its first reading, and with the first reading after it."""
    since: tuple[int, str] | None = None
    for at, text in readings:
        if since is not None and text != since[1]:
            yield since[1], since[0], at
            since = None
        if since is None and text:
            since = (at, text)
    if since is not None:
        yield since[1], since[0], None


def _problem(record: Reading, run: RunEvidence) -> str:
    """Return how a reading differs from the policy of its instant; empty: it does not."""
    applied = run.policy_at(record.at).applied
    if record.name not in (applied.name, applied.hpa_name):
        return ""
    if isinstance(record, ScalingObject):
        kind, spec = record.object_kind, record.spec
        name, found = f"{_SHORT.get(kind, kind)} {record.name}", ""
        if spec is not None:
            found = applied.difference(kind, record.name, spec, record.annotations)
    elif isinstance(record, HpaSample):
        name, read = f"HPA {record.name}", (record.min_replicas, record.max_replicas)
        found = applied.hpa_reading_problem(*read, record.targets)
    else:
        name, found = f"ScaledObject {record.name}", _scaled_object_problem(record, run)
    return found and f"{name}: {found}"


def _scaled_object_problem(record: ScaledObjectSample, run: RunEvidence) -> str:
    limits = run.policy_at(record.at).limits
    if _is(record, "Paused") and not run.policy_at(record.at).applied.declares_pause:
        return "paused, applied without a pause"
    if _is(record, "Fallback") and not _is_after_an_outage(run, record.at):
        return "scaled by its fallback, though no action caused an outage"
    if record.tolerance is None:  # an older recorder's, or a policy that it cannot read
        return ""
    pairs = (
        ("target for each replica", record.scales_at_records, limits.scales_at_records),
        ("target of the group", record.group_target_records, limits.group_target_records),
        ("tolerance", record.tolerance, limits.tolerances.up),
    )
    texts = (
        f"{title} {_shown(seen)}, applied {_shown(of)}" for title, seen, of in pairs if seen != of
    )
    return next(texts, "")


def _other_autoscalers(run: RunEvidence, window: Window) -> Iterator[Deviation]:
    """Yield each other autoscaler of the workload, from its first reading on."""
    policies = [policy.applied for policy in (run.policy, *run.swapped.values())]
    known = {name for policy in policies for name in (policy.name, policy.hpa_name)}
    for record in run.records:
        if not isinstance(record, Reading) or record.name in known:
            continue
        if window.holds(record.at):
            known.add(record.name)
            kind = "HPA" if isinstance(record, HpaSample) else "ScaledObject"
            text = f"another {kind}, {record.name}, scaled the workload from"
            text = f"{text} {window.second(record.at)}: it is not of the policy"
            yield Deviation(text, record.at, is_used=True)


def _missing(run: RunEvidence, window: Window) -> Iterator[Deviation]:
    """Yield the times in which the policy's object did not exist, though it could be read."""
    alive = [r.at for r in run.records if isinstance(r, ReplicaSample | LagSample)]
    for what, kind, of in (
        ("scaled_object", "ScaledObject", ScaledObjectSample),
        ("hpa", "HPA", HpaSample),
    ):
        seen = [record.at for record in run.records if isinstance(record, of)]
        if not seen:
            continue  # a policy of another kind, an older recorder, or no right to read them
        failed = [r.at for r in run.records if isinstance(r, ReadGap) and r.what == what]
        for gap in gaps_between(seen, window.from_at, window.until_at):
            inside = [at for at in alive if gap.started_at < at < gap.ended_at]
            is_dark = any(gap.started_at < at < gap.ended_at for at in failed)
            if is_dark or gaps_between(inside, gap.started_at, gap.ended_at):
                continue
            ends = (gap.started_at, gap.ended_at)
            if any(run.policies.is_swapping(at) for at in ends):
                continue
            if not all(run.policy_at(at).applied.has(kind) for at in ends):
                continue  # a swap brought a policy of another kind, or a paused one
            span = f"from {window.second(gap.started_at)}"
            if gap.ended_at < window.until_at:
                span = f"{span} to {window.second(gap.ended_at)}"
            yield Deviation(f"the policy's {kind} did not exist {span}", gap.started_at, True)


def _at_the_end(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield how the objects at the end differ from the last policy."""
    applied = run.policy_at(window.until_at).applied
    for kind, objects in run.stored_scalers.items():
        for name, found in objects.items():
            if name not in (applied.name, applied.hpa_name):
                continue
            text = applied.difference(kind, name, found.get("spec") or {}, None)
            if text:
                yield f"{_SHORT.get(kind, kind)} {name}: {text}"


def _is_used(run: RunEvidence, from_at: int, until_at: int) -> bool:
    """Return whether a sync may have used what was in force in [from_at, until_at].

    The bench's autoscaler reports its syncs. The HPA of a cluster shows one where its status
    changes; without any change nothing was decided. A whole period has a sync.
    """
    period_ns = round(run.policy_at(from_at).limits.flags.sync_seconds_in_force * NANOSECONDS)
    if until_at - from_at >= period_ns:
        return True
    syncs = [record.at for record in run.records if isinstance(record, HpaSync)]
    if syncs:
        return any(from_at <= at <= until_at for at in syncs)
    samples = [record for record in run.records if isinstance(record, HpaSample)]
    return any(
        from_at <= after.at <= until_at and _status(before) != _status(after)
        for before, after in pairwise(samples)
        if before.name == after.name
    )


def _status(sample: HpaSample) -> tuple[object, ...]:
    return sample.desired, sample.metrics, sample.last_scaled_at


def _is(sample: ScaledObjectSample, condition: str) -> bool:
    return any(text.split(" ")[0] == f"{condition}=True" for text in sample.conditions)


def _is_after_an_outage(run: RunEvidence, at: int) -> bool:
    """Return whether an action of the scenario took away what KEDA reads."""
    return any(
        action.kind in _OUTAGES
        and action.started_at is not None
        and action.started_at <= at <= (action.ended_at or at) + _RECOVERED_NS
        for action in run.actions
    )


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"


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


Part = Literal["policy", "lag", "replicas", "group", "work", "latency", "messages", "owners"]
"""``policy``: who scaled, by which rules. ``lag``: offsets. ``replicas``: the workload's.
``group``: its members and the owners of partitions. ``work``: how much was done when. ``latency``:
the time lag. ``messages``: what became of each. ``owners``: who did each, and in which order."""
EVERYTHING: tuple[Part, ...] = get_args(Part)


class Doubt(MeasureModel):
    """A finding that leaves each SLO on one of ``about`` undetermined, whether it held or not."""

    code: str  # of its rule
    about: tuple[Part, ...]
    text: str  # one sentence with the instant and the two values


@dataclass(frozen=True, slots=True)
class Window:
    """The measured part of a run: ``changes`` are those of the desired replicas in it."""

    from_at: int
    until_at: int
    changes: Sequence[ReplicaChange]
    origin_at: int | None = None  # of the load; None: the window begins there

    def holds(self, at: int) -> bool:
        """Return whether ``at`` is measured."""
        return self.from_at <= at <= self.until_at

    def second(self, at: int) -> str:
        """Return an instant in seconds after the load's origin, the first spike."""
        origin = self.from_at if self.origin_at is None else self.origin_at
        return f"{(at - origin) / NANOSECONDS:+.1f} s"

    def when(self, at: int) -> str:
        """Return it with its preposition."""
        return f"at {self.second(at)}"
