"""The metrics of an object's HPA, from those of its triggers."""

from __future__ import annotations

from collections.abc import Sequence

from lagbench.core.keda_scaler import COMPOSITE_METRIC, MetricSpec, ScalerFailed
from lagbench.core.scaled_object import ScaledObjectSpec


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
    composite = MetricSpec(
        name=COMPOSITE_METRIC,
        trigger_index=-1,
        kind="External",
        target_type=spec.modifiers.metric_type,
        target_milli=spec.modifiers.target_milli,
    )
    return (*resources, composite), names
