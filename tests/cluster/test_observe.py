"""``lagbench observe`` on a cluster, with an account that has the rights of docs/observe.md alone.

The group's members are processes here, and its Deployment's pods do nothing: the command watches
both, and no object may change.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from lagbench.core.measures.measures import Measures
from lagbench.core.scenario.run_names import CONSUMER_DEPLOYMENT
from lagbench.core.telemetry.records_of_recorder import ReadGap, ReplicaSample
from lagbench.embedded.broker import Broker
from lagbench.results.observed_run import RECORDS_FILE, read_records
from tests.cluster.cluster_rehearsal import CONTEXT, account_of, documented_role, kubectl
from tests.cluster.lagging_group import idle_consumers, scaled_object
from tests.cluster.live_admission import LiveApi
from tests.cluster.rig.rig import Rig
from tests.eventually import eventually
from tests.integration.observe.foreign_group import foreign_group

PLACE, PAGE = "observed", "observe.md"
GROUP, TOPIC = "shop", "orders"
_POLICY = scaled_object(
    PLACE, "shop", scaleTargetRef={"name": CONSUMER_DEPLOYMENT}, maxReplicaCount=3
)


@dataclass(frozen=True)
class Observed:
    """The namespace, the account's kubeconfig, and the Kafka of the group."""

    rig: Rig
    kubeconfig: Path
    bootstrap_servers: str

    def start(self, runs: Path, *more: str) -> subprocess.Popen[str]:
        """Start the command."""
        runs.mkdir()
        program = [str(Path(sys.executable).parent / "lagbench"), "observe"]
        kafka = ["--group", GROUP, "--topic", TOPIC, "--bootstrap-servers", self.bootstrap_servers]
        target = ["--target", f"context:{CONTEXT}", "--deployment", CONSUMER_DEPLOYMENT]
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "LAGBENCH_RUNS_DIR": str(runs),
        }
        return subprocess.Popen(
            [*program, *kafka, *target, *more],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def specs(self) -> dict[str, int]:
        """Return the generation of each object that an observation reads."""
        found = json.loads(
            kubectl(self.rig, "-n", PLACE, "get", "deployments,scaledobjects", "-o", "json")
        )
        return {
            f"{item['kind']} {item['metadata']['name']}": item["metadata"]["generation"]
            for item in found["items"]
        }


@pytest.fixture(scope="module")
def observed(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """Provide a Deployment with a policy, a group with a member, and the account that watches."""
    folder, api = tmp_path_factory.mktemp("observe"), LiveApi(rig.kubeconfig)
    kubectl(rig, "create", "namespace", PLACE)
    kubeconfig = account_of(rig, PLACE, documented_role(PAGE), folder / "observer.kubeconfig")
    for manifest in (idle_consumers(PLACE, 1), _POLICY):
        answer = api.send(manifest, PLACE)
        assert answer.is_accepted, answer.message
    broker = Broker(folder / "broker")
    broker.start()
    try:
        with foreign_group(broker.bootstrap_servers, GROUP, TOPIC):
            yield Observed(rig, kubeconfig, broker.bootstrap_servers)
    finally:
        broker.stop()
        kubectl(rig, "delete", "namespace", PLACE, "--wait=false")


def test_the_documented_rights_only_read() -> None:
    """The Role of the page has get, list and watch, and no more."""
    verbs = {verb for rule in documented_role(PAGE)["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}


def test_an_account_that_only_reads_can_observe(observed: Observed, tmp_path: Path) -> None:
    """Replicas, pods and the policy with its check are in the folder, and no object changed."""
    before, runs = observed.specs(), tmp_path / "runs"
    process = observed.start(runs, "--for", "10m")

    def has_seen_replicas() -> bool:
        found = list(runs.glob(f"observed*/{RECORDS_FILE}"))
        records = read_records(found[0]) if found else []
        return sum(isinstance(record, ReplicaSample) for record in records) >= 5

    eventually(has_seen_replicas, "five readings of the replicas")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=400)
    assert process.returncode in (0, 4), output
    (folder,) = runs.glob("observed*")
    measures = Measures.model_validate_json((folder / "measures.json").read_text())
    assert measures.fidelity == "kubernetes"
    assert measures.observation is not None
    assert measures.observation.policy == "ScaledObject shop"
    assert measures.scaling.max_replicas == 1
    records = read_records(folder / RECORDS_FILE)
    refused = [r.reason for r in records if isinstance(r, ReadGap) and "orbidden" in r.reason]
    assert refused == []
    check = json.loads((folder / "policy_check.json").read_text())
    assert check["accepted"], check
    assert yaml.safe_load((folder / "policy.yaml").read_text())["spec"]["maxReplicaCount"] == 3
    assert observed.specs() == before


def test_a_deployment_that_is_not_there_is_refused(observed: Observed, tmp_path: Path) -> None:
    """One message names the flag and the namespace; there is no run folder."""
    process = observed.start(tmp_path / "runs", "--deployment", "absent")
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 2, output
    assert "--deployment" in output
    assert PLACE in output
    assert not list((tmp_path / "runs").iterdir())
