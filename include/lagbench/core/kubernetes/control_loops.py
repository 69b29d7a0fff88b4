"""Defaults of the control loops of kube-controller-manager."""

from __future__ import annotations

HPA_SYNC_SECONDS = 15
"""Time between two syncs of an HPA (``--horizontal-pod-autoscaler-sync-period``)."""

HPA_TOLERANCE = 0.1
"""A metric within this share of its target changes nothing
(``--horizontal-pod-autoscaler-tolerance``)."""
