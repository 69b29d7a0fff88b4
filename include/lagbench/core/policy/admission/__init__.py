"""Answer a ScaledObject or an HPA as the API server and KEDA's webhook do, without a cluster."""

from lagbench.core.keda.object import hpa_name
from lagbench.core.kubernetes import subdomain_problems
from lagbench.core.policy.admission.answer import (
    Admission,
    FieldValidation,
    RefusedBy,
    admit,
    stored_form,
)
from lagbench.core.policy.admission.cluster import ClusterView, Manifest, target_type
from lagbench.core.policy.admission.horizontal_pod_autoscaler import admit_hpa, stored_hpa
from lagbench.core.policy.admission.webhook import lacking_request, polling_interval_decides

__all__ = [
    "Admission",
    "ClusterView",
    "FieldValidation",
    "Manifest",
    "RefusedBy",
    "admit",
    "admit_hpa",
    "hpa_name",
    "lacking_request",
    "polling_interval_decides",
    "stored_form",
    "stored_hpa",
    "subdomain_problems",
    "target_type",
]
