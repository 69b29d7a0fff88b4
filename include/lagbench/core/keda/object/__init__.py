"""A ScaledObject as KEDA parses it."""

from lagbench.core.keda.object.rules import (
    BEHAVIOR,
    SCALED_OBJECT,
    formula_of,
    hpa_name,
    object_refusals,
    uses_modifiers,
)
from lagbench.core.keda.object.scaled_object import parse_scaled_object, read_scaled_object
from lagbench.core.keda.object.spec import (
    API_VERSION,
    DEFAULT_MAX_REPLICAS,
    EXCLUDED_LABELS,
    FORCE_ACTIVATION,
    KIND,
    PAUSED,
    PAUSED_REPLICAS,
    PAUSED_SCALE_IN,
    PAUSED_SCALE_OUT,
    Fallback,
    ScaledObjectSpec,
    ScalingAnnotations,
    ScalingModifiers,
    Trigger,
    parse_scaling_annotations,
)
from lagbench.core.keda.refusals import NotSupported, TriggerRefused
from lagbench.core.keda.triggers import CronTrigger, ExternalTrigger, KafkaTrigger

__all__ = [
    "API_VERSION",
    "BEHAVIOR",
    "DEFAULT_MAX_REPLICAS",
    "EXCLUDED_LABELS",
    "FORCE_ACTIVATION",
    "KIND",
    "PAUSED",
    "PAUSED_REPLICAS",
    "PAUSED_SCALE_IN",
    "PAUSED_SCALE_OUT",
    "SCALED_OBJECT",
    "CronTrigger",
    "ExternalTrigger",
    "Fallback",
    "KafkaTrigger",
    "NotSupported",
    "ScaledObjectSpec",
    "ScalingAnnotations",
    "ScalingModifiers",
    "Trigger",
    "TriggerRefused",
    "formula_of",
    "hpa_name",
    "object_refusals",
    "parse_scaled_object",
    "parse_scaling_annotations",
    "read_scaled_object",
    "uses_modifiers",
]
