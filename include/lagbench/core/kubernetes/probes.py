"""The probes of a container."""

from __future__ import annotations

PROBE_KINDS = ("readinessProbe", "livenessProbe", "startupProbe")
"""The fields of a container that hold one."""
