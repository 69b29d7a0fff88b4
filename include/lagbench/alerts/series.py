"""PromQL of the alert rules, for a policy in production and for any run of the bench.

Both give vectors of one label set, so that the rules can compare and join them directly. The
vectors of a policy have no label, because its names are in the selectors. Those of the bench have
``run_id`` and ``run_group``: a run may have two consumer groups, each with a policy of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ERROR_WINDOW = "5m"
FALL_SECONDS = 120
_OF_A_GROUP = "by (run_id, run_group)"
_ERRORS = "keda_scaler_detail_errors_total"


@dataclass(frozen=True, slots=True)
class LagSeries:
    """The lag of one trigger. ``threshold`` (records): None if no number of records decides."""

    lag: str
    lag_before: str
    """The same, ``FALL_SECONDS`` ago."""
    partitions: str
    threshold: str | None
    is_per_replica: bool = True
    topic: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class ObjectSeries:
    """The scaled object: replicas and states; the last three have samples only while they hold."""

    desired: str
    existing: str
    ceiling: str
    desired_changes: Callable[[int], str]
    """Takes a window in seconds."""
    cannot_read: str
    not_ready: str
    scaler_errors: str
    tolerance: float = 0.0
    """The part of the threshold within which the HPA changes nothing; 0: the threshold has it."""


def lag_in_production(
    *,
    topic: str,
    group: str,
    threshold: str | None,
    is_per_replica: bool,
    kept: Sequence[int] | None = None,
) -> LagSeries:
    """Return the lag from kafka_exporter; an empty ``topic`` means all topics of the group.

    :param kept: the partitions that count; None: all.
    """
    of_topic = {"topic": topic} if topic else {}
    only = "" if kept is None else f',partition=~"{"|".join(map(str, sorted({*kept})))}"}}'
    name = "kafka_consumergroup_lag" if only else "kafka_consumergroup_lag_sum"
    lag = _select(name, consumergroup=group, **of_topic)
    ends = _select("kafka_topic_partition_current_offset", topic=topic)
    if only:
        lag, ends = (f"{selector.removesuffix('}')}{only}" for selector in (lag, ends))
    of_group = _select("kafka_consumergroup_lag", consumergroup=group)
    labels = "topic, partition" if only else "topic"
    by_partition = ends if topic else of_group
    return LagSeries(
        lag=f"sum(max by ({labels}) ({lag}))",
        lag_before=f"sum(max by ({labels}) ({lag} offset {FALL_SECONDS}s))",
        partitions=f"count(count by (topic, partition) ({by_partition}))",
        threshold=threshold,
        is_per_replica=is_per_replica,
        topic=topic,
        group=group,
    )


def object_in_production(
    *, namespace: str, scaled_object: str | None, hpa: str, ceiling: int, tolerance: float
) -> ObjectSeries:
    """Return kube-state-metrics' and KEDA's series of a policy; None: a user's own HPA."""
    of_hpa = {"namespace": namespace, "horizontalpodautoscaler": hpa}
    desired = _select("kube_horizontalpodautoscaler_status_desired_replicas", **of_hpa)
    condition = "kube_horizontalpodautoscaler_status_condition"
    inactive = _select(condition, **of_hpa, condition="ScalingActive", status="false")
    existing = _select("kube_horizontalpodautoscaler_status_current_replicas", **of_hpa)
    not_ready = _select(
        "kube_customresource_scaledobject_status_condition",
        namespace=namespace,
        scaledobject=scaled_object or "",
        condition="Ready",
        status="False",
    )
    return ObjectSeries(
        desired=f"max({desired})",
        existing=f"max({existing})",
        ceiling=str(ceiling),
        desired_changes=lambda seconds: f"max(changes({desired}[{seconds}s]))",
        cannot_read=f"max({inactive}) == 1\nand max({existing}) > 0",
        not_ready=f"max({not_ready}) == 1" if scaled_object else "",
        scaler_errors=_errors("", _of_scaled_object(namespace, scaled_object))
        if scaled_object
        else "",
        tolerance=tolerance,
    )


def lag_of_a_run() -> LagSeries:
    """Return the lag of every run that the bench's Prometheus sees.

    The recorder knows the policy in force: its threshold has replicas and tolerance in it.
    """
    return LagSeries(
        lag=f"max {_OF_A_GROUP} (lagbench_lag_records)",
        lag_before=f"max {_OF_A_GROUP} (lagbench_lag_records offset {FALL_SECONDS}s)",
        partitions=f"count {_OF_A_GROUP} (lagbench_partition_end_offset)",
        threshold=f"min {_OF_A_GROUP} (lagbench_scales_above_records)",
        is_per_replica=False,
    )


def object_of_a_run() -> ObjectSeries:
    """Return the recorder's series of the policy in force, and KEDA's of the namespace."""
    desired = "lagbench_hpa_desired_replicas"
    active = 'lagbench_hpa_condition{condition="ScalingActive"}'
    ready = 'lagbench_scaled_object_condition{condition="Ready"}'
    existing, wanted = (f'lagbench_replicas{{state="{state}"}}' for state in ("existing", "wanted"))
    return ObjectSeries(
        desired=f"max {_OF_A_GROUP} ({desired})",
        existing=f"max {_OF_A_GROUP} ({existing})",
        ceiling=f"max {_OF_A_GROUP} (lagbench_hpa_max_replicas)",
        desired_changes=lambda seconds: f"max {_OF_A_GROUP} (changes({desired}[{seconds}s]))",
        cannot_read=f"min {_OF_A_GROUP} ({active}) == 0\nand max {_OF_A_GROUP} ({wanted}) > 0",
        not_ready=f"min {_OF_A_GROUP} ({ready}) == 0",
        scaler_errors=_errors("by (namespace, scaledObject) ", [""]),
    )


def _errors(by: str, selectors: list[str]) -> str:
    """Return the errors of the last minutes; a counter has no sample before its first error."""
    grown = " or ".join(f"increase({_ERRORS}{where}[{ERROR_WINDOW}])" for where in selectors)
    now = " or ".join(f"{_ERRORS}{where}" for where in selectors)
    before = " or ".join(f"{_ERRORS}{where} offset {ERROR_WINDOW}" for where in selectors)
    return f"sum {by}({grown}) > 0\nor (sum {by}({now}) > 0 unless sum {by}({before}))"


def _of_scaled_object(namespace: str, name: str) -> list[str]:
    """Return both selectors of it: a scrape with its own ``namespace`` label renames KEDA's."""
    return [
        _select("", exported_namespace=namespace, scaledObject=name),
        _select("", exported_namespace="", namespace=namespace, scaledObject=name),
    ]


def _select(metric: str, **labels: str) -> str:
    # A PromQL string has the escapes of a JSON string, but no surrogates.
    where = ",".join(
        f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in labels.items()
    )
    return f"{metric}{{{where}}}"
