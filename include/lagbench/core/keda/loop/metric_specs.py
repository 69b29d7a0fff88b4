"""Build the metrics of an object's HPA from the metrics of its triggers."""

from __future__ import annotations

from collections.abc import Sequence

from lagbench.core.keda.loop.scaler import COMPOSITE_METRIC, MetricSpec, ScalerFailed
from lagbench.core.keda.object.spec import ScaledObjectSpec, ScalingModifiers, Trigger
from lagbench.core.keda.triggers.other_types import TRIGGER_TYPES, ResourceTrigger


def trigger_metric_spec(trigger: Trigger) -> MetricSpec | None:
    """Return a trigger's metric; None for an external one, whose server alone knows its metrics."""
    parameters = trigger.parameters
    if isinstance(parameters, ResourceTrigger):
        return MetricSpec(
            name=parameters.resource,
            kind="Resource",
            target_type=parameters.target_type,
            target_milli=parameters.target_milli or 0,
            target_percent=parameters.target_percent,
            container_name=parameters.container_name,
        )
    target_milli = TRIGGER_TYPES[trigger.type].target_milli
    if target_milli is None:
        return None
    return MetricSpec(
        name=trigger.metric_name,
        kind="External",
        target_type=trigger.metric_type,
        target_milli=target_milli(parameters),
    )


def composite_metric_spec(modifiers: ScalingModifiers) -> MetricSpec:
    """Return the one metric that scalingModifiers makes of the external ones."""
    return MetricSpec(
        name=COMPOSITE_METRIC,
        kind="External",
        target_type=modifiers.metric_type,
        target_milli=modifiers.target_milli,
    )


def object_metric_specs(
    spec: ScaledObjectSpec, plain: Sequence[MetricSpec]
) -> tuple[tuple[MetricSpec, ...], tuple[str, ...]]:
    """Return the HPA's metrics and the names of the external ones that the triggers yield.

    External metrics come first; with scalingModifiers one composite takes the place of them all,
    behind the resources. ``ScalerFailed`` when there is none, or a name twice.
    """
    if not plain:
        raise ScalerFailed(
            f"no metric specs returned from scalers for ScaledObject {spec.namespace}/{spec.name}"
        )
    external = [item for item in plain if item.kind == "External"]
    names = tuple(item.name for item in external)
    for place, name in enumerate(names):
        if name in names[:place]:
            raise ScalerFailed(
                f"metricName {name} defined multiple times in ScaledObject {spec.name}"
            )
    resources = [item for item in plain if item.kind == "Resource"]
    if spec.modifiers is None:
        return (*external, *resources), names
    return (*resources, composite_metric_spec(spec.modifiers)), names
