"""Review the policy of an observed group as ``lagbench policy check`` does, with its loop gain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from lagbench.adapters.runs.run_folder import RunFolder
    from lagbench.core.measures.evidence import Observation
    from lagbench.orchestrator.observed_target import ObservedPlace, ObservedWorkload


def review_observed(
    console: Console,
    folder: RunFolder,
    place: ObservedPlace,
    workload: ObservedWorkload,
    seen: Observation,
) -> None:
    """Print the review and write it to ``policy_check.json``; without a policy do nothing."""
    from lagbench.cli.policy_report import print_review
    from lagbench.core.policy.review import PolicyContext, review_documents
    from lagbench.results.observed_run import POLICY_CHECK_FILE, observed_partitions

    policy, rate = workload.policy, seen.pod_rate_per_second
    if policy is None:
        return
    context = PolicyContext(partitions=observed_partitions(folder), pod_rate=rate)
    facts = place.facts(policy)
    review = review_documents([policy], where=place.name, context=context, facts=facts)
    print_review(console, Path(f"in {place.name}"), review, context)
    found = review.policies[0]
    folder.write_json(
        POLICY_CHECK_FILE,
        {
            "kind": found.kind,
            "name": found.name,
            "accepted": found.is_accepted,
            "can_run": found.can_run,
            "loop_gain": found.loop_gain,
            "pod_rate_per_second": rate,
            "findings": [finding.as_dict() for finding in found.findings],
        },
    )
