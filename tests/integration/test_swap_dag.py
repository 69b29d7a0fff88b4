"""The example that swaps three policies, by a real Airflow on localkube and its autoscaler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.integration.autoscaler_setting import NAMESPACE, LagControl, running_setting
from tests.integration.example_dag import run_example
from tests.integration.guarded_deployment import connections_to

from lagbench.embedded.broker import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NAME = "shop"
FLAGS = ("--hpa-sync-seconds", "1", "--downscale-stabilization-seconds", "3")


def test_three_policies_are_swapped_and_the_first_one_is_back(
    broker: Broker, tmp_path: Path
) -> None:
    """Each is in force on the same group, with a difference; behind them nothing is left of them.

    The object was made without server-side apply, as a user's is.
    """
    lag = LagControl(broker.bootstrap_servers, "swapped", "swapping", partitions=6)
    lag.prepare()
    theirs: dict[str, Any] = {
        "scaleTargetRef": {"name": NAME},
        "minReplicaCount": 1,
        "maxReplicaCount": 3,
        "pollingInterval": 1,
        "advanced": {"restoreToOriginalReplicaCount": True},
        "triggers": [lag.trigger()],
    }
    with running_setting(tmp_path / "cluster", *FLAGS) as setting:
        setting.deployment(NAME, replicas=1)
        setting.create("ScaledObject", NAME, theirs)
        kubeconfig = next((tmp_path / "cluster").rglob("kubeconfig*"))
        conf = {"topic": lag.topic, "group": lag.group, "minutes": 0.05, "namespace": NAMESPACE}
        conf |= {"deployment": NAME, "scaled_object": NAME}
        connections = connections_to(broker.bootstrap_servers, kubeconfig)
        results = run_example(tmp_path, "compare_policies", connections, conf)
        left = setting.get("ScaledObject", NAME)

    assert left is not None
    assert left["spec"] == theirs
    diffs = [results[f"apply_{n}", "return_value"]["diff"] for n in (1, 2, 3)]
    assert "-  maxReplicaCount: 3" in diffs[0]
    assert "restoreToOriginalReplicaCount" in diffs[0]
    assert all(diffs)
    assert len(results["compare", "return_value"]) == 3
