"""Build the Job that plays a run's actions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lagbench.core.cluster.group_manifests import Manifest
from lagbench.core.cluster.jobs import job_for_run, second_telemetry
from lagbench.core.cluster.manifests import RunTarget
from lagbench.core.cluster.policy_manifest import policy_for_run
from lagbench.core.policy import PolicyLimits
from lagbench.core.scenario import SWAP_ANNOTATION, Scenario, flag_text
from lagbench.core.scenario.stream import load_spikes, offered_load, resting_lag_records, tail_of


def swapped_policy_for_run(
    policy: Mapping[str, Any], target: RunTarget, *, number: int, is_embedded: bool
) -> Manifest:
    """Return the policy that action ``number`` puts in force, with that number on it."""
    manifest = policy_for_run(policy, target, is_embedded=is_embedded)
    manifest["metadata"]["annotations"][SWAP_ANNOTATION] = str(number)
    return manifest


def actions_job_for_run(
    job: Mapping[str, Any],
    target: RunTarget,
    scenario: Scenario,
    limits: PolicyLimits,
    *,
    policies: Mapping[int, Manifest] | None = None,
) -> Manifest:
    """Return the player's Job, under one name for each run: creating it twice is a conflict.

    :param policies: new policies as a run applies them, by the number of their action.
    """
    load = offered_load(scenario.profile)
    spikes = load_spikes(
        load,
        started_replicas=limits.started_replicas,
        pod_rate=scenario.consumer.pod_rate_per_second,
    )
    after_seconds = spikes[-1].end_seconds if spikes else load.duration_seconds
    tail = tail_of(scenario, started_replicas=limits.started_replicas)
    drained = resting_lag_records(tail, lag_threshold=limits.lag_threshold_records or 0)
    actions = [action.model_dump(mode="json", exclude_none=True) for action in scenario.actions]
    return job_for_run(
        job,
        target,
        name=target.names.actions_job,
        environment={
            "ACTIONS_JSON": json.dumps(actions),
            "POLICIES_JSON": json.dumps(dict(policies or {})),
        },
        arguments={
            "run-id": target.names.run_id,
            "namespace": target.cluster.namespace,
            "workload": target.workload,
            "seed": str(scenario.seed),
            "drained-records": str(drained),
            "drained-after-seconds": flag_text(after_seconds),
            **second_telemetry(target.names, scenario),
        },
    )
