"""Which runs are of one cell: the same load, consumers, policy, seed, target and fidelity.

Only runs of one cell are compared. Digests stand for policy and target, for a run folder names no
machine.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from lagbench.core.measures import Fidelity
from lagbench.core.scenario import Scenario

NOT_RUN = {"description", "policy", "slos", "seed"}
"""Fields of a scenario that shape no run: its text, the policy's name, the limits of the verdict.
The seed is told apart below, also when it is the default."""


def content_digest(content: Any) -> str:
    """Return the SHA-256 of parsed YAML or JSON; order of keys and comments make no difference."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def cell_id(
    scenario: Scenario, *, policy_digest: str, target_digest: str, fidelity: Fidelity
) -> str:
    """Return the digest that all runs of one cell share, and no other run.

    Fields at their default are left out, so a field that is added later changes no digest.

    :param policy_digest: of the policy's content as its file has it, before a run's names go in.
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
