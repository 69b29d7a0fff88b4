"""Setup: the rig with the overlay ``ci``, a broker, the image of Spark.

1. One rehearsal of a consumer on Spark with the runner's rights: one worker, which KEDA doubles.
2. Read accounting, reaction and batches. 3. Look for anything left.
"""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.core.scenario.run_names import NAMESPACE, RUN_ID_LABEL
from lagbench.embedded.broker import Broker
from tests.cluster.cluster_rehearsal import ClusterRehearsal, kubectl, left_behind
from tests.cluster.rig.rig import Rig
from tests.eventually import eventually

pytestmark = pytest.mark.timeout(2700)


@pytest.fixture(scope="module")
def exit_code(home: ClusterRehearsal, spark_image: str) -> int:
    """Run once for all tests of the module."""
    return home.finish(home.start_run(options=home.target_options, is_on_spark=True))


def test_every_message_is_accounted_for(home: ClusterRehearsal, exit_code: int) -> None:
    """The ledger of the tasks on real pods has each message once."""
    for name in ("lost", "duplicated", "reordered", "zombies"):
        assert home.slo(name)["status"] == home.unfailed, home.output()
    assert home.read("manifest.json")["fidelity"] == "kubernetes"
    accounting = home.read("accounting.json")
    assert accounting["produced_acked"] == accounting["processed_distinct"] > 0
    assert accounting["lost"] == accounting["duplicated"] == 0


def test_keda_adds_a_worker_on_published_lag(home: ClusterRehearsal, exit_code: int) -> None:
    """From one worker to two and back, and the second one finished tasks: the chain ends there."""
    measures = home.read("measures.json")

    assert measures["scaling"]["max_replicas"] == 2
    assert measures["end_state"]["is_at_floor"]
    assert measures["reaction"]["is_complete"], measures["reaction"]["reason"]


def test_batches_and_publishing_are_measured(home: ClusterRehearsal, exit_code: int) -> None:
    """The driver ran once in its pod, and reported its batches and what it published."""
    spark: dict[str, Any] = home.read("measures.json")["spark"]

    assert spark["driver_starts"] == 1
    assert spark["batches"] > 0
    assert spark["publish_delay_seconds"] is not None


def test_nothing_is_left(
    rig: Rig, rig_broker: Broker, home: ClusterRehearsal, exit_code: int
) -> None:
    """No pod, Service, Lease, topic, group or process of the run stays behind, and no Secret."""
    assert left_behind(rig, rig_broker, home) == []
    secrets = ("-n", NAMESPACE, "get", "secrets", "-o=name", f"-l={RUN_ID_LABEL}")
    eventually(lambda: not kubectl(rig, *secrets), "the Secret ends with its owner")
