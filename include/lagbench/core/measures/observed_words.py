"""Say what an observation saw, in sentences with their numbers."""

from __future__ import annotations

from collections.abc import Iterator

from lagbench.core.measures.evidence.observed_group import Observation
from lagbench.core.measures.measures import NAMED, Measures


def seen_in_words(measures: Measures) -> tuple[str, ...]:
    """Return the sentences; none for a rehearsal, whose report says it against its plan."""
    seen = measures.observation
    if seen is None:
        return ()
    return (
        f"Seen{_seconds(measures.run_seconds, ' in {} s')}: {_load(seen, measures)}.",
        f"Peak lag {_text('peak_lag_records', measures)}{_drained(measures)}.",
        f"{', '.join(_group(seen, measures))}.",
        _replicas(measures),
    )


def _load(seen: Observation, measures: Measures) -> str:
    low, high, spikes = seen.lowest_rate_per_second, seen.highest_rate_per_second, ""
    if not measures.spikes_unknown:
        count = measures.load.spikes
        spikes = f" with {count} spike{'s' * (count != 1)}"
    if low is None or high is None:
        return f"a load{spikes or ' of unknown rates'}"
    return f"load {low:,.0f} to {high:,.0f} messages/s{spikes}"


def _drained(measures: Measures) -> str:
    drain = measures.drain
    if drain.drain_seconds is not None:
        return f", drained {drain.drain_seconds:,.1f} s after the spike"
    is_known = drain.spike_ended_at is not None and drain.threshold_records is not None
    return ", not drained when the observation ended" if is_known else ""


def _group(seen: Observation, measures: Measures) -> Iterator[str]:
    rate = seen.pod_rate_per_second
    yield "Rate of one pod unknown" if rate is None else f"One pod did {rate:,.0f}/s"
    most, count = measures.scaling.max_group_members, measures.rebalances.count
    yield "members unknown" if most is None else f"at most {most} member{'s' * (most != 1)}"
    yield f"{count} rebalance{'s' * (count != 1)}"


def _replicas(measures: Measures) -> str:
    scaling = measures.scaling
    if scaling.max_replicas is None:
        return "Replicas, flips, pod time: not measured (--target and --deployment name the pods)."
    changes, time = _text("replica_changes", measures), _text("pod_minutes", measures)
    return (
        f"At most {scaling.max_replicas} replicas with {changes} changes, "
        f"{_text('flips', measures)}, {time}."
    )


def _text(name: str, measures: Measures) -> str:
    return NAMED[name].text(NAMED[name].read(measures))


def _seconds(value: float | None, pattern: str) -> str:
    return "" if value is None else pattern.format(f"{value:,.0f}")
