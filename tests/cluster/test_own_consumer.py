"""Setup: the rig with the overlay ``ci``, a broker, the code of a user's consumer in a ConfigMap.

1. One rehearsal of the user's Deployment, with the runner's rights, scaled by the real KEDA.
2. Read what its commits tell. 3. Look for anything left, and that the ConfigMap was left alone.
4. The same Deployment without a securityContext, which the namespace does not admit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lagbench.core.scenario.run_names import NAMESPACE
from lagbench.embedded.broker import Broker
from lagbench.errors import ExitCode
from tests.cluster.cluster_rehearsal import (
    ClusterRehearsal,
    kubectl,
    left_behind,
    rehearsal_on,
    users_code,
)
from tests.cluster.fault_bystanders import BUILT_IN, objects
from tests.cluster.rig.rig import Rig
from tests.e2e.rehearsal import DATA

pytestmark = pytest.mark.timeout(2700)

SCENARIO = DATA / "scenarios" / "own_on_cluster.yaml"
POLICY = DATA / "policies" / "lag-tiny.yaml"
MANIFEST = DATA / "own_consumers" / "on-cluster.yaml"
CODE = DATA / "own_consumers" / "plain_consumer.py"
WARN = "pod-security.kubernetes.io/warn"
WORDS = 'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false'


@pytest.fixture(scope="module")
def home(
    rig: Rig, rig_broker: Broker, program_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterRehearsal]:
    """Provide a home on the rig, whose namespace has the code."""
    folder = tmp_path_factory.mktemp("own-home")
    with rehearsal_on(rig, rig_broker, folder) as home, users_code(rig, CODE):
        yield home


@pytest.fixture(scope="module")
def exit_code(home: ClusterRehearsal) -> int:
    """Run once for the tests of a run."""
    return home.finish_files(SCENARIO, POLICY)


@pytest.fixture(scope="module")
def unprotected(home: ClusterRehearsal) -> Path:
    """Return the user's manifest without any securityContext."""
    found = yaml.safe_load(MANIFEST.read_text())
    pod = found["spec"]["template"]["spec"]
    for part in (pod, *pod["containers"]):
        del part["securityContext"]
    path = home.root / "unprotected.yaml"
    path.write_text(yaml.safe_dump(found))
    return path


def test_the_users_deployment_is_judged_by_its_commits(
    home: ClusterRehearsal, exit_code: int
) -> None:
    """It ran under the run's name, and the verdict says first what commits cannot tell."""
    verdict = home.read("verdict.json")

    assert home.read("manifest.json")["fidelity"] == "kubernetes"
    assert verdict["status"] != "undetermined" or verdict["invalid"], home.output()
    assert "lost" in verdict["judged_without"][0]


def test_keda_scales_it(home: ClusterRehearsal, exit_code: int) -> None:
    """More than one pod in the spike, the floor after it, and no lag left in the log."""
    measures = home.read("measures.json")

    assert measures["scaling"]["max_replicas"] > 1
    assert measures["end_state"]["is_at_floor"]
    assert measures["lag"]["peak_records"] > 0


def test_a_restart_gives_the_pods_other_variables(home: ClusterRehearsal, exit_code: int) -> None:
    """The pods of the run's end wrote what they have: $(POD_NAME) is the consumer's, not ours."""
    (action,) = home.read("measures.json")["actions"]

    assert (action["problem"], action["detail"]) == ("", "with other values of MODE")
    logs = sorted(home.folder().glob("logs/consumer-*.log"))
    assert logs
    assert [path.read_text().splitlines()[0] for path in logs] == [
        f"mode second-{path.stem}" for path in logs
    ]


def test_nothing_is_left_but_the_users_own(
    rig: Rig, rig_broker: Broker, home: ClusterRehearsal, exit_code: int
) -> None:
    """No object, topic, group or process of the run stays; the ConfigMap is not the run's."""
    assert left_behind(rig, rig_broker, home) == []
    assert "orders-code" in kubectl(rig, "-n", NAMESPACE, "get", "configmaps", "-o=name")


def test_pods_that_the_namespace_rejects_are_refused_before_a_run(
    rig: Rig, home: ClusterRehearsal, unprotected: Path
) -> None:
    """Exit 2 with the file, the level and the fields to set; nothing is created."""
    before = set(objects(rig, NAMESPACE, kinds=BUILT_IN))
    runs = set((home.root / "runs").glob("*"))

    code = _run(home, unprotected)

    printed = " ".join(home.output().split())
    assert code == ExitCode.WRONG_INPUT, printed
    assert f"{unprotected.name}: spec.template = " in printed
    assert "runAsNonRoot=true" in printed
    assert set(objects(rig, NAMESPACE, kinds=BUILT_IN)) == before
    assert set((home.root / "runs").glob("*")) == runs


def test_pods_that_kubernetes_refuses_end_the_run(
    rig: Rig, rig_broker: Broker, home: ClusterRehearsal, unprotected: Path
) -> None:
    """A namespace that does not warn shows it on the pods alone: the run ends with their words."""
    kubectl(rig, "label", "--overwrite", "namespace", NAMESPACE, f"{WARN}=privileged")

    code = _run(home, unprotected)

    kubectl(rig, "label", "--overwrite", "namespace", NAMESPACE, f"{WARN}=restricted")
    printed = " ".join(home.output().split())
    assert code == ExitCode.NOT_READY, printed
    assert "Deployment/consumer" in printed
    assert unprotected.name in printed
    assert WORDS in printed
    lines = (home.folder() / "phases.jsonl").read_text().splitlines()
    tries = [one for one in map(json.loads, lines) if one["name"] == "run_consumers"]
    assert [one["state"] for one in tries] == ["started", "failed"]  # tried once
    assert left_behind(rig, rig_broker, home) == []


def _run(home: ClusterRehearsal, manifest: Path) -> int:
    settings = f"consumer.manifest={manifest}"
    return home.finish(home.start_files(SCENARIO, POLICY, settings, options=home.target_options))
