"""Setup: the rig with the overlay ``ci``, a broker, the code of a user's consumer in a ConfigMap.

1. One rehearsal of the user's Deployment, with the runner's rights, scaled by the real KEDA.
2. Read what its commits tell. 3. Look for anything left, and that the ConfigMap was left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lagbench.core.scenario.run_names import NAMESPACE
from lagbench.embedded.broker import Broker
from tests.cluster.cluster_rehearsal import ClusterRehearsal, kubectl, left_behind, rehearsal_on
from tests.cluster.rig.rig import Rig
from tests.e2e.rehearsal import DATA

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

SCENARIO = DATA / "scenarios" / "own_on_cluster.yaml"
POLICY = DATA / "policies" / "lag-tiny.yaml"
CODE = DATA / "own_consumers" / "plain_consumer.py"


@pytest.fixture(scope="module")
def home(
    rig: Rig, rig_broker: Broker, program_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterRehearsal]:
    """Provide a home on the rig, whose namespace has the code."""
    with rehearsal_on(rig, rig_broker, tmp_path_factory.mktemp("own-home")) as home:
        code = ("configmap", "orders-code", f"--from-file={CODE}")
        kubectl(rig, "-n", NAMESPACE, "create", *code)
        yield home
        kubectl(rig, "-n", NAMESPACE, "delete", "configmap", "orders-code")


@pytest.fixture(scope="module")
def exit_code(home: ClusterRehearsal) -> int:
    """Run once for all tests of the module."""
    command = ("run", str(SCENARIO), "--policy", str(POLICY), *home.target_options)
    return home.finish(home.start(*command))


def test_the_users_deployment_is_judged_by_its_commits(
    home: ClusterRehearsal, exit_code: int
) -> None:
    """It ran under the run's name, and the verdict says first what commits cannot tell."""
    assert exit_code in {0, 1}, home.output()  # it was judged; how deep it dips is not the question
    verdict = home.read("verdict.json")

    assert home.read("manifest.json")["fidelity"] == "kubernetes"
    assert verdict["invalid"] == [], home.output()
    assert verdict["judged_without"], verdict
    assert "lost" in verdict["judged_without"][0]


def test_keda_scales_it(home: ClusterRehearsal, exit_code: int) -> None:
    """More than one pod in the spike, the floor after it, and no lag left in the log."""
    measures = home.read("measures.json")

    assert measures["scaling"]["max_replicas"] > 1
    assert measures["end_state"]["is_at_floor"]
    assert measures["lag"]["peak_records"] > 0


def test_nothing_is_left_but_the_users_own(
    rig: Rig, rig_broker: Broker, home: ClusterRehearsal, exit_code: int
) -> None:
    """No object, topic, group or process of the run stays; the ConfigMap is not the run's."""
    assert left_behind(rig, rig_broker, home) == []
    assert "orders-code" in kubectl(rig, "-n", NAMESPACE, "get", "configmaps", "-o=name")
