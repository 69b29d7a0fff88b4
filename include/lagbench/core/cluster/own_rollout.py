"""How a user's Deployment replaces its pods, checked for localkube as a cluster would check it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lagbench.core.cluster.own_deployment import OwnDeployment

_SHARE = re.compile(r"\d+%")
_LIMITS = ("maxSurge", "maxUnavailable")


def rollout_of(own: OwnDeployment) -> dict[str, Any]:
    """Return the fields of the Deployment's spec that say how its pods are replaced."""
    spec = own.deployment["spec"]
    found = {name: spec[name] for name in ("strategy", "minReadySeconds") if spec.get(name)}
    ready = found.get("minReadySeconds", 0)
    if not _is_count(ready):
        raise own.refuse("spec.minReadySeconds", ready, "whole seconds from 0 on")
    strategy = found.get("strategy", {})
    if not isinstance(strategy, Mapping):
        raise own.refuse("spec.strategy", strategy, "a type, and rollingUpdate")
    kind, rolling = strategy.get("type", "RollingUpdate"), strategy.get("rollingUpdate") or {}
    if kind not in ("RollingUpdate", "Recreate"):
        raise own.refuse("spec.strategy.type", kind, "RollingUpdate or Recreate")
    place = "spec.strategy.rollingUpdate"
    if not isinstance(rolling, Mapping) or (rolling and kind == "Recreate"):
        raise own.refuse(place, rolling, "maxSurge and maxUnavailable, with type RollingUpdate")
    for name in _LIMITS:
        limit = rolling.get(name, 0)
        if not _is_count(limit) and not (isinstance(limit, str) and _SHARE.fullmatch(limit)):
            raise own.refuse(f"{place}.{name}", limit, "whole pods from 0 on, or a share like 25%")
    if all(rolling.get(name, "25%") in (0, "0%") for name in _LIMITS):
        raise own.refuse(
            f"{place}.maxUnavailable", rolling["maxUnavailable"], "not 0 as maxSurge is"
        )
    return found


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
