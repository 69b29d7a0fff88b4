"""A policy that is checked, and how it fits a scenario."""

from __future__ import annotations

import pytest

from lagbench.catalog.catalog import load_policy, load_scenario
from lagbench.core.policy.checked_policy import check_fit, check_policy
from lagbench.errors import WrongInput


def test_more_replicas_than_partitions_do_not_fit() -> None:
    """The message names the policy's file and the field of its kind."""
    manifest = load_policy("lag-quick").manifest
    many = {**manifest, "spec": {**manifest["spec"], "maxReplicaCount": 13}}
    scenario = load_scenario("quick_spike")

    with pytest.raises(WrongInput) as caught:
        check_fit(scenario, check_policy(many, where="mine.yaml"))

    assert (caught.value.where, caught.value.field) == ("mine.yaml", "spec.maxReplicaCount")
    check_fit(
        load_scenario("quick_spike", {"allow_overscale": "true"}),
        check_policy(many, where="mine.yaml"),
    )


def test_a_wrong_threshold_names_the_policy_s_file() -> None:
    """The annotation of a policy without a lag trigger must be a number above 0."""
    manifest = load_policy("cpu-only").manifest
    metadata = {**manifest["metadata"], "annotations": {"lagbench.io/lag-threshold": "many"}}

    with pytest.raises(WrongInput) as caught:
        check_policy({**manifest, "metadata": metadata}, where="mine.yaml")

    assert (caught.value.where, caught.value.value) == ("mine.yaml", "many")
