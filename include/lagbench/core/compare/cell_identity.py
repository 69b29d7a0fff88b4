"""Identify the runs of one cell: same load, consumers, policy, seed, target and fidelity.

Only runs of one cell are compared. Policy and target are digests, because a run folder names no
machine.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from lagbench.core.measures import Fidelity
from lagbench.core.scenario import Scenario

NOT_RUN = {"description", "policy", "slos", "seed"}
"""Scenario fields that do not affect a run: its text, the policy's name, the verdict's limits.
The seed is added separately below, even if it is the default."""


def content_digest(content: Any) -> str:
    """Return the SHA-256 of parsed YAML or JSON; order of keys and comments make no difference."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def cell_id(
    scenario: Scenario, *, policy_digest: str, target_digest: str, fidelity: Fidelity
) -> str:
    """Return the digest that all runs of one cell share, and no other run.

    Fields at their default are left out, so a field that is added later changes no digest.

    :param policy_digest: of the policy file's content, before a run's names are inserted.
    :param target_digest: of the target's name, e.g. ``embedded`` or ``context:NAME``.
    """
    effective = scenario.model_dump(mode="json", exclude_defaults=True, exclude=NOT_RUN)
    return content_digest(
        {
            "scenario": effective,
            "seed": scenario.seed,
            "policy": policy_digest,
            "target": target_digest,
            "fidelity": fidelity,
        }
    )
