"""Triggers for tests, read as the autoscaler reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.core.keda.triggers.trigger_parameters import TriggerSource
from lagbench.core.keda.triggers.trigger_types import parse_trigger


def read_trigger(
    kind: str,
    metadata: Mapping[str, str],
    auth: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    metric_type: str = "",
) -> Any:
    """Return what KEDA makes of it; without ``auth`` its login is known to hold nothing."""
    source = TriggerSource(
        metadata, metric_type=metric_type, auth=auth or {}, environment=environment or {}
    )
    parameters, beyond = parse_trigger(kind, source)
    if beyond is not None and kind != "kafka":
        raise beyond
    return parameters
