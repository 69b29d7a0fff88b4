"""Setup: the rig with the overlay ``ci``, a broker, the code of a user's consumer in a ConfigMap.

1. One rehearsal with a user's messages and a user's Deployment, which passes their headers on.
2. Read what the accounting by identity says of them. 3. Look for anything left.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from lagbench.core.scenario.run_names import NAMESPACE
from lagbench.embedded.broker import Broker
from lagbench.project import PROJECT_ROOT
from tests.cluster.cluster_rehearsal import (
    ClusterRehearsal,
    kubectl,
    left_behind,
    rehearsal_on,
    users_code,
)
from tests.cluster.rig.rig import Rig
from tests.e2e.rehearsal import DATA

pytestmark = [pytest.mark.integration, pytest.mark.timeout(2700)]

SCENARIO = DATA / "scenarios" / "own_messages_on_cluster.yaml"
POLICY = DATA / "policies" / "lag-tiny.yaml"
MANIFEST = DATA / "own_consumers" / "on-cluster.yaml"
CODE = PROJECT_ROOT / "include" / "catalog" / "consumers" / "after_advice.py"
MESSAGES = 150 * 20


@pytest.fixture(scope="module")
def home(
    rig: Rig, rig_broker: Broker, program_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterRehearsal]:
    """Provide a home on the rig, whose namespace has the code."""
    folder = tmp_path_factory.mktemp("own-messages")
    with rehearsal_on(rig, rig_broker, folder) as home, users_code(rig, CODE):
        yield home


@pytest.fixture(scope="module")
def exit_code(home: ClusterRehearsal) -> int:
    """Run the consumer that follows the advice."""
    manifest = yaml.safe_load(MANIFEST.read_text())
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    container["command"] = ["python", f"/code/{CODE.name}"]
    path = home.root / "prices.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return home.finish_files(SCENARIO, POLICY, f"consumer.manifest={path}")


def test_each_message_is_accounted_for_by_its_header(
    home: ClusterRehearsal, exit_code: int
) -> None:
    """The samples came into the producer's pod, and their identity through the user's code."""
    assert exit_code in {0, 1}, home.output()  # whether an SLO holds is not the question
    accounting = home.read("accounting.json")

    assert home.read("manifest.json")["fidelity"] == "kubernetes"
    assert home.read("verdict.json")["invalid"] == [], home.output()
    assert accounting["lost"] == 0
    assert accounting["processed_distinct"] >= MESSAGES
    assert "lost" not in home.read("verdict.json")["judged_without"][0]


def test_the_samples_are_deleted_and_the_users_code_stays(
    rig: Rig, rig_broker: Broker, home: ClusterRehearsal, exit_code: int
) -> None:
    """Both are ConfigMaps of one namespace; the run's has its label."""
    assert left_behind(rig, rig_broker, home) == []
    assert "orders-code" in kubectl(rig, "-n", NAMESPACE, "get", "configmaps", "-o=name")
