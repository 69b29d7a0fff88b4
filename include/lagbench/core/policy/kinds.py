"""The kinds of manifest that are a scaling policy, with their API versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

POLICY_VERSIONS = {
    "ScaledObject": "keda.sh/v1alpha1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
}


def is_policy(document: Any) -> bool:
    """Return whether a document of a file is a ScaledObject or an HPA, of whichever version."""
    kind = document.get("kind") if isinstance(document, Mapping) else None
    return isinstance(kind, str) and kind in POLICY_VERSIONS
