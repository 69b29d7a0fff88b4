"""PromQL of the dashboard: ``$namespace``, ``$run_id`` and ``$run_group`` are chosen at its top."""

from __future__ import annotations

NAMESPACE = 'namespace="$namespace"'
RUN = f'{NAMESPACE},run_id="$run_id"'
OF_GROUP = f'{RUN},run_group="$run_group"'
"""One consumer group of the run: both groups' recorders export the load, and the same names."""


def rate(counter: str, *where: str) -> str:
    """Return a counter's growth per second, of the series for which ``where`` holds."""
    return f"rate({counter}{{{','.join((OF_GROUP, *where))}}}[$__rate_interval])"


def slope(gauge: str) -> str:
    """Return a gauge's growth per second; a falling gauge counts as 0."""
    return f"clamp_min(deriv({gauge}{{{OF_GROUP}}}[$__rate_interval]), 0)"


def increase(counter: str, *, by: str, where: str = OF_GROUP) -> str:
    """Return a counter's growth in the last minute, by a label."""
    return f"sum by ({by}) (increase({counter}{{{where}}}[1m]))"


def quantile(share: float, histogram: str, by: str = "le") -> str:
    """Return a quantile of a histogram's values in the last minute."""
    return (
        f"histogram_quantile({share}, sum by ({by}) (rate({histogram}_bucket{{{OF_GROUP}}}[1m])))"
    )
