"""Samples of one group and topic from a few numbers: seconds in, lags in."""

from collections.abc import Sequence

import numpy as np

from lag_scaler.offsets import GroupSample
from lag_scaler.rule import Decision, LagRule
from lag_scaler.window import GroupWindow

START_NS = 1_700_000_000_000_000_000
END = 1_000_000


def at(seconds: float) -> int:
    """Return the instant ``seconds`` after the start."""
    return START_NS + round(seconds * 1e9)


def offsets(
    seconds: float,
    end: Sequence[int],
    committed: Sequence[int],
    *,
    earliest: Sequence[int] | None = None,
    partitions: Sequence[int] | None = None,
) -> GroupSample:
    """Return a sample with these offsets, partitions 0, 1, ... unless they are given."""
    numbers = range(len(end)) if partitions is None else partitions
    return GroupSample(
        at(seconds),
        np.array(list(numbers), dtype=np.int32),
        np.array(end, dtype=np.int64),
        np.array(committed, dtype=np.int64),
        None if earliest is None else np.array(earliest, dtype=np.int64),
    )


def lags(seconds: float, *each: int, partitions: Sequence[int] | None = None) -> GroupSample:
    """Return a sample with these lags; the ends grow, so that commits always move."""
    end = END + round(seconds * 1000)
    return offsets(seconds, [end] * len(each), [end - lag for lag in each], partitions=partitions)


def rule(**changes: object) -> LagRule:
    """Return a rule: threshold 500, 20 s sustained, sampled every 2 s, 30 samples kept."""
    usual = {"sustain_seconds": 20.0, "sampling_interval_seconds": 2.0, "window_size": 30}
    return LagRule.model_validate({**usual, **changes})


def window(of: LagRule | None = None) -> GroupWindow:
    """Return an empty window at the rule's interval."""
    return GroupWindow((of or rule()).sampling_interval_seconds)


def judged(samples: Sequence[GroupSample], by: LagRule | None = None) -> Decision:
    """Return the decision right after the last of ``samples``."""
    chosen = by or rule()
    over = window(chosen)
    watched = over.watch(chosen)
    for sample in samples:
        over.add(sample)
    return watched.decide(samples[-1].at_ns)
