"""A ScaledObject as KEDA parses it."""

from lagbench.core.keda.object.annotations import (
    EXCLUDED_LABELS,
    FORCE_ACTIVATION,
    PAUSED,
    PAUSED_REPLICAS,
    PAUSED_SCALE_IN,
    PAUSED_SCALE_OUT,
    ScalingAnnotations,
    parse_scaling_annotations,
)
from lagbench.core.keda.object.scaled_object import (
    API_VERSION,
    KIND,
    CronTrigger,
    ExternalTrigger,
    Fallback,
    KafkaTrigger,
    NotSupported,
    TriggerRefused,
    find_problems,
    parse_scaled_object,
)
from lagbench.core.keda.object.scaling_modifiers import (
    ScalingModifiers,
    missing_problem,
    target_problem,
)
from lagbench.core.keda.object.spec import ScaledObjectSpec
from lagbench.core.keda.object.spec_parts import DEFAULT_MAX_REPLICAS
from lagbench.core.keda.object.trigger import Trigger

__all__ = [
    "API_VERSION",
    "DEFAULT_MAX_REPLICAS",
    "EXCLUDED_LABELS",
    "FORCE_ACTIVATION",
    "KIND",
    "PAUSED",
    "PAUSED_REPLICAS",
    "PAUSED_SCALE_IN",
    "PAUSED_SCALE_OUT",
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
    "find_problems",
    "missing_problem",
    "parse_scaled_object",
    "parse_scaling_annotations",
    "target_problem",
]
