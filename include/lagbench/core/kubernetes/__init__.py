"""Kubernetes' own formats: quantities, instants, fields, Go's texts."""

from lagbench.core.kubernetes.bearer_token import token_end_seconds
from lagbench.core.kubernetes.control_loops import HPA_SYNC_SECONDS, HPA_TOLERANCE
from lagbench.core.kubernetes.fields import refuse_unknown_fields
from lagbench.core.kubernetes.go_float import go_float
from lagbench.core.kubernetes.go_quote import go_quote
from lagbench.core.kubernetes.instants import (
    NS_PER_SECOND,
    floor_to_second_ns,
    format_instant,
    parse_instant_ns,
)
from lagbench.core.kubernetes.json_number import json_float_problem, json_integer_problem
from lagbench.core.kubernetes.json_value import json_value
from lagbench.core.kubernetes.object_fields import (
    boolean,
    optional_whole,
    quoted_form,
    required_whole,
    text,
    whole,
)
from lagbench.core.kubernetes.probes import PROBE_KINDS
from lagbench.core.kubernetes.quantity import format_milli, metric_milli, parse_milli
from lagbench.core.kubernetes.readiness import is_ready, ready_since, repeated_ends
from lagbench.core.kubernetes.workloads import is_rolled_out, selector_string, wanted_replicas

__all__ = [
    "HPA_SYNC_SECONDS",
    "HPA_TOLERANCE",
    "NS_PER_SECOND",
    "PROBE_KINDS",
    "boolean",
    "floor_to_second_ns",
    "format_instant",
    "format_milli",
    "go_float",
    "go_quote",
    "is_ready",
    "is_rolled_out",
    "json_float_problem",
    "json_integer_problem",
    "json_value",
    "metric_milli",
    "optional_whole",
    "parse_instant_ns",
    "parse_milli",
    "quoted_form",
    "ready_since",
    "refuse_unknown_fields",
    "repeated_ends",
    "required_whole",
    "selector_string",
    "text",
    "token_end_seconds",
    "wanted_replicas",
    "whole",
]
