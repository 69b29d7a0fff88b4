"""Check the rules between the fields of a ScaledObject."""

from __future__ import annotations

from collections.abc import Mapping

from lagbench.core.keda.refusals import TriggerRefused
from lagbench.errors import WrongInput

_LABEL_LENGTH = 63


def check_names(name: str, hpa_name: str, where: str) -> None:
    """Reject names that cannot be label values: both become one on the HPA."""
    if not 1 <= len(name) <= _LABEL_LENGTH:
        allowed = f"1 to {_LABEL_LENGTH} characters: it is used as a label value"
        raise WrongInput(where=where, field="metadata.name", value=name, allowed=allowed)
    if len(hpa_name) > _LABEL_LENGTH:
        raise WrongInput(
            where=where,
            field="spec.advanced.horizontalPodAutoscalerConfig.name",
            value=hpa_name,
            allowed=f"at most {_LABEL_LENGTH} characters; set it, or shorten metadata.name",
        )


def check_bounds(counts: Mapping[str, int | None], where: str) -> None:
    """Reject counts that KEDA rejects; an absent minimum is 0, a given one counts as 1 or more."""
    given, idle = counts["min_replica_count"], counts["idle_replica_count"]
    maximum = counts["max_replica_count"] or 0
    minimum = 0 if given is None else max(given, 1)
    if minimum > maximum:
        raise WrongInput(
            where=where,
            field="spec.minReplicaCount",
            value=given,
            allowed=f"at most maxReplicaCount ({maximum})",
        )
    if idle is not None and idle >= minimum:
        raise TriggerRefused(
            where=where,
            field="spec.idleReplicaCount",
            value=idle,
            keda_message=f"IdleReplicaCount={idle} must be less than MinReplicaCount={minimum}",
            stage="bounds",
        )
