"""Turn a measured load into a trace and a scenario: what a topic took, step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from lagbench.core.kubernetes_values import NS_PER_SECOND, format_instant
from lagbench.core.scenario.event_stream import partition_shares
from lagbench.core.scenario.profiles import (
    LONGEST_SECONDS,
    MOST_PER_SECOND,
    MOST_PROFILE_CHARACTERS,
    MOST_ROWS,
    TraceProfile,
    profile_text,
    trace_points,
)
from lagbench.core.scenario.scenario import Keys
from lagbench.errors import WrongInput

_SHOWN_GAPS, _WHERE = 3, "trace"
_DIGITS = 4
"""Rates are rounded to this many digits of the peak: the producer's profile has a longest text."""
_STEEPEST, _HALVINGS = 5.0, 14
"""The highest exponent of a Zipf distribution of keys, and the steps of the search for one."""
UNKNOWN_POLICY, UNKNOWN_MS = "lag-default", 1.0
"""Of a written scenario, where policy and time for a message are not known."""


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """Messages per second in each step from the Unix second ``first`` on; NaN: not measured.

    ``shares``: of each partition in all messages; empty: not known.
    """

    first: int
    step_seconds: int
    rates: npt.NDArray[np.float64]
    shares: tuple[float, ...] = ()

    def instant(self, step: int) -> str:
        """Return when a step begins."""
        return _instant(self.first + step * self.step_seconds)

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Return the steps [first, end) of each stretch that was not measured."""
        return _stretches(np.isnan(self.rates))

    @property
    def whole(self) -> MeasuredLoad:
        """Return the load with a straight line over each gap that has both neighbours."""
        known = np.flatnonzero(~np.isnan(self.rates))
        steps = np.arange(self.rates.size)
        rates = np.interp(steps, known, self.rates[known], left=np.nan, right=np.nan)
        return MeasuredLoad(self.first, self.step_seconds, rates, self.shares)


def step_count(first: int, last: int, step_seconds: int) -> int:
    """Return the steps of a period that a trace can hold.

    :raises WrongInput: it is empty, longer than a stream, or has more steps than a trace has rows.
    """
    length = last - first
    longest = f"after --from, at most {LONGEST_SECONDS // 3600} hours: a stream is no longer"
    if not step_seconds <= length <= LONGEST_SECONDS:
        raise _refused("--to", _instant(last), f"at least a step {longest}")
    count = length // step_seconds
    if count >= MOST_ROWS:
        least = math.ceil(length / (MOST_ROWS - 1))
        raise _refused(
            "--step", f"{step_seconds}s", f"{least}s or more: at most {MOST_ROWS:,} rows"
        )
    return count


def load_of_series(
    values: Mapping[int, float], first: int, step_seconds: int, count: int
) -> MeasuredLoad:
    """Return the load of a query: its value at an instant is the rate of the step before that.

    :param values: by Unix second.
    """
    ends = (first + step_seconds * (step + 1) for step in range(count))
    rates = np.array([values.get(end, math.nan) for end in ends])
    return MeasuredLoad(first, step_seconds, rates)


def load_of_offsets(
    offsets: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], first: int, step_seconds: int
) -> MeasuredLoad:
    """Return the load of a topic by its offsets [instant, partition] at the edges of the steps.

    :param starts: the offset of the oldest kept message of each partition; 0: nothing is deleted.
    :raises WrongInput: messages of the period may be deleted.
    """
    is_cut = (starts > 0) & (offsets[0] <= starts)
    if is_cut.any():
        last = np.argmax(offsets[:, is_cut] > starts[is_cut], axis=0) - 1
        last[(offsets[:, is_cut] <= starts[is_cut]).all(axis=0)] = offsets.shape[0] - 1
        kept = first + (int(last.max()) + 1) * step_seconds
        named = ", ".join(map(str, np.flatnonzero(is_cut)[:8].tolist()))
        is_all = last.max() + 1 >= offsets.shape[0]
        since = "another period" if is_all else f"{_instant(kept)} or later"
        allowed = f"{since}: older messages of the partitions {named} are deleted (retention)"
        raise _refused("--from", _instant(first), allowed)
    taken = np.diff(offsets, axis=0)
    total = float(taken.sum())
    shares = tuple((taken.sum(axis=0) / total).tolist()) if total else ()
    return MeasuredLoad(first, step_seconds, taken.sum(axis=1) / step_seconds, shares)


def require_trace(load: MeasuredLoad) -> None:
    """Reject values that cannot be rates of messages, and gaps: what is missing is not zero.

    :raises WrongInput: names instants and lengths.
    """
    for is_wrong, value, why in (
        (np.isinf(load.rates), "infinite", "a rate: the query divides by 0"),
        (load.rates < 0, "below 0", "a rate: is the query a difference, or deriv() of a counter?"),
        (load.rates > MOST_PER_SECOND, "too high", f"at most {MOST_PER_SECOND:,} a second"),
    ):
        for first, end in _stretches(is_wrong)[:1]:
            seen = f"{load.rates[first]:g} at {load.instant(first)} ({value}, {end - first} steps)"
            raise WrongInput(where=_WHERE, field="value", value=seen, allowed=why)
    if gaps := load.gaps:
        texts = [
            f"{load.instant(first)} for {(end - first) * load.step_seconds} s"
            for first, end in gaps[:_SHOWN_GAPS]
        ]
        more = f" and {len(gaps) - _SHOWN_GAPS} more" if len(gaps) > _SHOWN_GAPS else ""
        inner = all(first > 0 and end < load.rates.size for first, end in gaps)
        bridge = "--interpolate (a straight line over each), or " if inner else ""
        allowed = f"no gap: {bridge}another --from and --to. Nothing is known there, also not 0"
        raise WrongInput(where=_WHERE, field="gaps", value=", ".join(texts) + more, allowed=allowed)
    if not load.rates.any():
        allowed = "a period with messages"
        raise WrongInput(where=_WHERE, field="rates", value="0 in each step", allowed=allowed)


def trace_text(load: MeasuredLoad) -> str:
    """Return the load as a trace's CSV; equal neighbours are one row.

    :raises WrongInput: it is too long for a producer.
    """
    decimals = max(0, _DIGITS - 1 - math.floor(math.log10(float(load.rates.max()))))
    rates = np.round(load.rates, decimals)
    kept = np.flatnonzero(np.diff(rates, prepend=np.nan) != 0)
    lines = [f"{step * load.step_seconds},{rates[step]:.{decimals}f}" for step in kept.tolist()]
    text = "\n".join(["second,rate", *lines, f"{rates.size * load.step_seconds},0"]) + "\n"
    profile = TraceProfile(kind="trace", file="trace", points=trace_points(text, where=_WHERE))
    if len(profile_text(profile)) > MOST_PROFILE_CHARACTERS:
        raise _refused("--step", f"{load.step_seconds}s", "a longer one: too many rows")
    return text


def keys_of_shares(shares: Sequence[float]) -> tuple[Keys, float]:
    """Return keys whose hottest partition gets the share of the hottest one here, and its share.

    Only that share is fitted: the others are as a Zipf distribution of keys has them.
    """
    low, high, wanted, count = 0.0, _STEEPEST, max(shares), len(shares)

    def hottest(zipf_s: float) -> float:
        return float(partition_shares(Keys(zipf_s=zipf_s), count, 1).max())

    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if hottest(middle) < wanted else (low, middle)
    zipf_s = min((0.0, round(low, 3), round(high, 3)), key=lambda s: abs(hottest(s) - wanted))
    return Keys(zipf_s=zipf_s), hottest(zipf_s)


def replay_text(
    scenario: Mapping[str, Any], *, trace: str, shares: Sequence[float], remarks: Sequence[str] = ()
) -> str:
    """Return a scenario's YAML that plays ``trace``, its topic as hot as the measured ``shares``.

    :param scenario: name, description, partitions, and what is known of consumer and policy.
    """
    notes = [f"Plays {trace} beside it.", *remarks]
    found = {
        **{key: scenario[key] for key in ("name", "description", "partitions")},
        "profile": {"kind": "trace", "file": trace},
    }
    if len(shares) > 1:
        keys, reached = keys_of_shares(shares)
        found["keys"] = {"zipf_s": keys.zipf_s}
        notes.append(
            f"The hottest partition got {max(shares):.1%} as measured, "
            f"{reached:.1%} by keys.zipf_s; the others follow from that."
        )
    found["consumer"] = scenario.get("consumer") or {"process_ms": UNKNOWN_MS}
    found["policy"] = scenario.get("policy") or UNKNOWN_POLICY
    found |= {"allow_overscale": True, "slos": {"flips": None}}  # real traffic turns, too
    comment = "".join(f"# {note}\n" for note in notes)
    return comment + yaml.safe_dump(found, sort_keys=False, allow_unicode=True)


def _instant(second: int) -> str:
    return format_instant(second * NS_PER_SECOND)


def _stretches(marks: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(marks.astype(np.int8), prepend=0, append=0))
    return [(int(first), int(end)) for first, end in edges.reshape(-1, 2)]


def _refused(field: str, value: object, allowed: str) -> WrongInput:
    return WrongInput(where="command line", field=field, value=value, allowed=allowed)
