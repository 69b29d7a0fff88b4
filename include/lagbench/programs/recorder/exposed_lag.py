"""One sample of the lag as numbers to be shown; what is not known is None."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lagbench.core.measures.evidence.series import lag_series
from lagbench.core.telemetry.recorder import LagSample


@dataclass(frozen=True, slots=True)
class ExposedLag:
    """Records of lag in total (None while a partition's is unknown) and by partition."""

    total: float | None
    by_partition: tuple[tuple[int, float | None], ...]


def exposed_lag(sample: LagSample) -> ExposedLag | None:
    """Return the lag of a sample; None when it has no partition."""
    if not sample.partitions:
        return None
    partitions, ends, committed = zip(*sample.partitions, strict=True)
    series = lag_series([sample.at] * len(partitions), partitions, ends, committed)
    each = zip(series.partitions.tolist(), series.by_partition[0], strict=True)
    return ExposedLag(
        _known(series.total[0]), tuple((partition, _known(lag)) for partition, lag in each)
    )


def _known(lag: float) -> float | None:
    return None if math.isnan(lag) else float(lag)
