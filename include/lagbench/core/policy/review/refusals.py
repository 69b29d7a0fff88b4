"""An answer of the API server or the webhook as findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.core.kubernetes import value_at
from lagbench.core.policy.admission import Admission
from lagbench.core.policy.review.finding import LOGIN_PARAMETERS, Finding, shown


def refusal_findings(manifest: Mapping[str, Any], answer: Admission) -> list[Finding]:
    """Return one finding for each reason of a refusal; none when it was accepted."""
    return [
        Finding(
            "refused",
            refusal.code,
            refusal.field,
            shown(value_at(manifest, refusal.field), refusal.field),
            refusal.text,
            "in quotes" if _is_login(refusal.field) and refusal.instead else refusal.instead,
        )
        for refusal in answer.refusals
    ]


def _is_login(field: str) -> bool:
    return field.rpartition(".")[2].removesuffix("FromEnv") in LOGIN_PARAMETERS
