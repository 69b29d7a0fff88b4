"""The kinds of manifest that are a scaling policy, with their API versions."""

from __future__ import annotations

POLICY_VERSIONS = {
    "ScaledObject": "keda.sh/v1alpha1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
}
