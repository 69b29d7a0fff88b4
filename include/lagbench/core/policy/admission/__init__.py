"""Answer a ScaledObject or an HPA as the API server and KEDA's webhook do, without a cluster."""

from lagbench.core.policy.admission.answer import (
    NOT_SERVED,
    Admission,
    FieldValidation,
    RefusedBy,
    admit,
    stored_form,
)
from lagbench.core.policy.admission.cluster import ClusterView, Manifest, target_type
from lagbench.core.policy.admission.field_error import FieldError
from lagbench.core.policy.admission.horizontal_pod_autoscaler import (
    admit_hpa,
    hpa_schema,
    stored_hpa,
)
from lagbench.core.policy.admission.object_meta import (
    exported_fields,
    finalizer_warnings,
    without_export,
)
from lagbench.core.policy.admission.qualified_names import subdomain_problems
from lagbench.core.policy.admission.resource_requests import request_problems
from lagbench.core.policy.admission.scaled_object_schema import SCALED_OBJECT
from lagbench.core.policy.admission.schema import Schema
from lagbench.core.policy.admission.webhook import (
    NOT_FOUND,
    RESOURCE_TRIGGERS,
    hpa_name,
    polling_interval_decides,
)

__all__ = [
    "NOT_FOUND",
    "NOT_SERVED",
    "RESOURCE_TRIGGERS",
    "SCALED_OBJECT",
    "Admission",
    "ClusterView",
    "FieldError",
    "FieldValidation",
    "Manifest",
    "RefusedBy",
    "Schema",
    "admit",
    "admit_hpa",
    "exported_fields",
    "finalizer_warnings",
    "hpa_name",
    "hpa_schema",
    "polling_interval_decides",
    "request_problems",
    "stored_form",
    "stored_hpa",
    "subdomain_problems",
    "target_type",
    "without_export",
]
