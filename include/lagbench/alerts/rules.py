"""Alert rules for faults of a policy that stay unnoticed until the lag has grown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lagbench.alerts.series import FALL_SECONDS, LagSeries, ObjectSeries

Severity = Literal["warning", "critical"]

_IDLE_SECONDS = 300
_NOT_READY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One alerting rule of Prometheus."""

    name: str
    expr: str
    for_seconds: int
    severity: Severity
    summary: str
    description: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the rule in the form of a rule file."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": f"{self.for_seconds}s",
            "labels": _plain({"severity": self.severity, **self.labels}),
            "annotations": _plain({"summary": self.summary, "description": self.description}),
        }


@dataclass(frozen=True, slots=True)
class Waits:
    """Time limits in seconds after which a lasting state is a fault.

    ``climb``: the longest time in which a policy that may scale up changes nothing.
    ``without_metric``: the longest time without a substitute for a metric that cannot be read.
    """

    climb: int
    without_metric: int
    stand_in: str


def alert_rules(
    lags: Sequence[LagSeries],
    scaled: ObjectSeries,
    waits: Waits,
    labels: Mapping[str, str],
) -> list[AlertRule]:
    """Return all rules; the lag rules once per trigger that counts records."""
    found = [rule for lag in lags for rule in _of_lag(lag, scaled, waits, labels)]
    return [*found, *_of_object(scaled, waits, labels)]


def _of_lag(
    lag: LagSeries, scaled: ObjectSeries, waits: Waits, labels: Mapping[str, str]
) -> Iterator[AlertRule]:
    labels = {**labels, **_filled({"topic": lag.topic, "consumergroup": lag.group})}
    if lag.threshold is not None:
        yield AlertRule(
            name="ConsumersStuckBelowPartitions",
            expr=_all(
                f"{lag.lag} > {_due(lag, scaled)}",
                f"{scaled.desired} < {scaled.ceiling}",
                f"{scaled.desired} < {lag.partitions}",
                f"{scaled.desired_changes(waits.climb)} == 0",
            ),
            for_seconds=waits.climb,
            severity="critical",
            summary="Lag requires more consumers, and the autoscaler adds none",
            description="The lag exceeds the target of the replicas, their number is below the "
            f"partitions and below maxReplicaCount, and it did not change for {waits.climb} s.",
            labels=labels,
        )
    yield AlertRule(
        name="ConsumersIdleBeyondPartitions",
        expr=f"{scaled.existing} > {lag.partitions}",
        for_seconds=_IDLE_SECONDS,
        severity="warning",
        summary="More consumers than partitions",
        description="Each consumer beyond the partitions gets no partition: it is idle but paid "
        "for.",
        labels=labels,
    )
    floor = "0" if lag.threshold is None else _due(lag, scaled)
    at_ceiling, all_busy = (
        f"{scaled.desired} >= {scaled.ceiling}",
        f"{scaled.desired} >= {lag.partitions}",
    )
    yield AlertRule(
        name="LagNotFallingAtCeiling",
        expr=_all(
            f"({at_ceiling}\n  or {all_busy})",
            f"{lag.lag} > {floor}",
            f"{lag.lag} >= {lag.lag_before}",
        ),
        for_seconds=FALL_SECONDS,
        severity="critical",
        summary="All consumers that can help are running, and the lag does not fall",
        description="The policy has reached its limit: raise maxReplicaCount up to the "
        "partitions, add partitions, or make a consumer faster. A hot partition also looks "
        "like this.",
        labels=labels,
    )


def _of_object(
    scaled: ObjectSeries, waits: Waits, labels: Mapping[str, str]
) -> Iterator[AlertRule]:
    yield AlertRule(
        name="NoMetricAndNoFallback",
        expr=scaled.cannot_read,
        for_seconds=waits.without_metric,
        severity="critical",
        summary="The HPA cannot read its metric, and there is no fallback value",
        description=f"The replicas do not follow the lag. {waits.stand_in}",
        labels=dict(labels),
    )
    if scaled.not_ready:
        yield AlertRule(
            name="ScaledObjectNotReady",
            expr=scaled.not_ready,
            for_seconds=_NOT_READY_SECONDS,
            severity="critical",
            summary="The ScaledObject is not Ready",
            description="KEDA cannot run the policy as written or cannot read a trigger. The "
            "condition Ready of the object has the reason.",
            labels=dict(labels),
        )
    if scaled.scaler_errors:
        yield AlertRule(
            name="ScalerErrors",
            expr=scaled.scaler_errors,
            for_seconds=0,
            severity="warning",
            summary="KEDA could not read a trigger",
            description="The source of a trigger failed to answer within the last five minutes.",
            labels=dict(labels),
        )


def _due(lag: LagSeries, scaled: ObjectSeries) -> str:
    """Return the lag above which the HPA adds replicas: below, its tolerance prevents it."""
    tolerated = f"{1 + scaled.tolerance:g} * " if scaled.tolerance else ""
    return f"{tolerated}{lag.threshold}" + (f" * {scaled.desired}" if lag.is_per_replica else "")


def _all(*terms: str) -> str:
    return "\nand ".join(terms)


def _plain(texts: Mapping[str, str]) -> dict[str, str]:
    """Return texts in which Prometheus finds no template: a group's name may have braces."""
    return {name: text.replace("{{", '{{"{{"}}') for name, text in texts.items()}


def _filled(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if value}
