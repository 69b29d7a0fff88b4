"""Answer a ScaledObject as the API server and KEDA's webhook do, without a cluster."""

from lagbench.core.policy.admission.answer import (
    Admission,
    FieldValidation,
    RefusedBy,
    admit,
    stored_form,
)
from lagbench.core.policy.admission.cluster import ClusterView, Manifest, target_type
from lagbench.core.policy.admission.horizontal_pod_autoscaler import refuse_wrong_hpa_fields
from lagbench.core.policy.admission.object_meta import finalizer_warnings
from lagbench.core.policy.admission.qualified_names import subdomain_problems
from lagbench.core.policy.admission.resource_requests import request_problems
from lagbench.core.policy.admission.scaled_object_schema import SCALED_OBJECT
from lagbench.core.policy.admission.schema import Schema
from lagbench.core.policy.admission.schema_check import without_nulls
from lagbench.core.policy.admission.webhook import (
    NOT_FOUND,
    RESOURCE_TRIGGERS,
    hpa_name,
    polling_interval_decides,
)

__all__ = [
    "NOT_FOUND",
    "RESOURCE_TRIGGERS",
    "SCALED_OBJECT",
    "Admission",
    "ClusterView",
    "FieldValidation",
    "Manifest",
    "RefusedBy",
    "Schema",
    "admit",
    "finalizer_warnings",
    "hpa_name",
    "polling_interval_decides",
    "refuse_wrong_hpa_fields",
    "request_problems",
    "stored_form",
    "subdomain_problems",
    "target_type",
    "without_nulls",
]
