"""Reject a policy whose kafka trigger cannot log in to a secured Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.core.policy.limits import KAFKA_TYPES
from lagbench.errors import WrongInput


def require_kafka_log_in(manifest: Mapping[str, Any], *, where: str) -> None:
    """Reject a kafka trigger without TLS and SASL: KEDA does not read the Secret of the pods.

    A broker whose certificate KEDA's image trusts needs no more than ``tls`` of the metadata.

    :raises WrongInput: names the first such trigger.
    """
    for number, trigger in enumerate((manifest.get("spec") or {}).get("triggers") or []):
        metadata = trigger.get("metadata") or {}
        if trigger.get("type") not in KAFKA_TYPES or trigger.get("authenticationRef"):
            continue
        if "sasl" not in metadata and metadata.get("tls") != "enable":
            raise WrongInput(
                where=where,
                field=f"spec.triggers[{number}].authenticationRef",
                value="",
                allowed="a TriggerAuthentication with the login of KEDA: this Kafka is secured",
            )
