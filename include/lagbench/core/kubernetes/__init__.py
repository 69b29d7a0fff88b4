"""Kubernetes' own formats: quantities, instants, fields, Go's texts."""

from lagbench.core.kubernetes.bearer_token import token_end_seconds
from lagbench.core.kubernetes.control_loops import HPA_SYNC_SECONDS, HPA_TOLERANCE
from lagbench.core.kubernetes.fields import refuse_unknown_fields
from lagbench.core.kubernetes.instants import (
    NS_PER_SECOND,
    floor_to_second_ns,
    format_instant,
    parse_instant_ns,
)
from lagbench.core.kubernetes.json_value import json_value
from lagbench.core.kubernetes.object_meta import (
    LABEL_LENGTH,
    METADATA,
    exported_fields,
    metadata_refusals,
    odd_finalizers,
    qualified_name_problems,
    subdomain_problems,
    without_export,
)
from lagbench.core.kubernetes.object_schema import (
    QUANTITY,
    Refusal,
    Schema,
    anything,
    entry,
    flag,
    known_fields,
    overflows,
    quoted_form,
    rows,
    schema_refusals,
    text,
    texts,
    unknown_fields,
    value_at,
    whole,
)
from lagbench.core.kubernetes.probes import PROBE_KINDS
from lagbench.core.kubernetes.quantity import format_milli, metric_milli, parse_milli
from lagbench.core.kubernetes.readiness import is_ready, ready_since, repeated_ends
from lagbench.core.kubernetes.workloads import is_rolled_out, selector_string, wanted_replicas

__all__ = [
    "HPA_SYNC_SECONDS",
    "HPA_TOLERANCE",
    "LABEL_LENGTH",
    "METADATA",
    "NS_PER_SECOND",
    "PROBE_KINDS",
    "QUANTITY",
    "Refusal",
    "Schema",
    "anything",
    "entry",
    "exported_fields",
    "flag",
    "floor_to_second_ns",
    "format_instant",
    "format_milli",
    "is_ready",
    "is_rolled_out",
    "json_value",
    "known_fields",
    "metadata_refusals",
    "metric_milli",
    "odd_finalizers",
    "overflows",
    "parse_instant_ns",
    "parse_milli",
    "qualified_name_problems",
    "quoted_form",
    "ready_since",
    "refuse_unknown_fields",
    "repeated_ends",
    "rows",
    "schema_refusals",
    "selector_string",
    "subdomain_problems",
    "text",
    "texts",
    "token_end_seconds",
    "unknown_fields",
    "value_at",
    "wanted_replicas",
    "whole",
    "without_export",
]
