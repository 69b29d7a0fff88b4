"""Name who did the work where the pod is not known."""

from __future__ import annotations

OWNER_PREFIX = "output-"
"""Begins the name that stands for the pods of an output topic's partition."""
