"""Setup: the rig, a broker, a home. What ``lagbench down`` does about the cluster that it left.

1. Plant what a killed run leaves. 2. Down without a note, with the API server away, with a note.
3. A run that is killed, its Lease, and down in the middle of the next one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lagbench.adapters.clean_up import ON_A_CLUSTER
from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.workloads import WORKLOADS
from lagbench.core.cluster.lease import LEASE
from lagbench.core.scenario.run_names import (
    NAMESPACE,
    RUN_ID_ANNOTATION,
    RUN_ID_LABEL,
    RunNames,
)
from lagbench.embedded.broker import Broker
from lagbench.errors import ExitCode
from lagbench.orchestrator.opened_clusters import ClusterNote, cluster_notes
from lagbench.orchestrator.target import ClusterTarget
from tests.cluster.cluster_rehearsal import CONTEXT, ClusterRehearsal, kubectl, rehearsal_on
from tests.cluster.rig.rig import Rig
from tests.e2e.rehearsal import DOWN_LIMIT_SECONDS

pytestmark = pytest.mark.timeout(2700)
KILLED = RunNames("killed-run")


def test_down_cleans_up_the_clusters_that_it_has_opened(
    rig: Rig, rig_broker: Broker, home: ClusterRehearsal
) -> None:
    """Without a note nothing is touched; with one, what has a run's label and topic goes."""
    kubectl(rig, "-n", NAMESPACE, "create", "serviceaccount", "recorder")
    label = f"{RUN_ID_LABEL}={KILLED.run_id}"
    kubectl(rig, "-n", NAMESPACE, "label", "serviceaccount", "recorder", label)
    with KafkaAdmin(rig_broker.bootstrap_servers) as admin:
        admin.create_topics([TopicSpec(KILLED.events_topic, 1)])
    planted = {"ServiceAccount/recorder", KILLED.events_topic}

    without_note = home.finish(home.start("down"))
    left_without_note = left(rig, rig_broker)
    note = write_note(home, rig_broker)
    code = home.finish(home.start("down"))

    assert (without_note, left_without_note) == (ExitCode.PASS, planted)
    assert code == ExitCode.PASS, home.output()
    assert "ServiceAccount/recorder" in home.output()
    assert left(rig, rig_broker) == set()
    assert not note.path.exists()


def test_a_killed_run_keeps_others_out_and_down_ends_its_successor(
    rig: Rig, rig_broker: Broker, home: ClusterRehearsal, tmp_path: Path
) -> None:
    """SIGKILL: another Airflow is rejected by name, one's own continues; down in its spike.

    Pods, policy, topics, group, Lease and processes go with the run.
    """
    state_dir = home.root / "state"
    killed = home.start_run(options=home.target_options)
    home.wait_for_phase("bench_up", "finished")
    killed.kill()
    killed.wait(timeout=60)
    dead = home.folder().name
    with rehearsal_on(rig, rig_broker, tmp_path) as there:
        refused = there.finish(there.start_run(options=there.target_options))
        run = home.start_run(options=home.target_options)
        home.wait_for_phase("inject_spike", "finished")
        holder, run_id = _holder_and_run(rig)
        noted = len(cluster_notes(state_dir, "run"))

        code = home.finish(home.start("down"))

        assert refused == ExitCode.NOT_READY, there.output()
        assert f"{holder} (run {dead})" in " ".join(there.output().split())
        assert not (there.root / "runs").exists()
    assert holder == (state_dir / "lease-holder").read_text()
    assert run_id == home.folder().name != dead
    assert noted == 1
    assert code == ExitCode.PASS, home.output()
    assert run.wait(timeout=DOWN_LIMIT_SECONDS) == 130, home.output()
    assert left(rig, rig_broker) == set()
    assert kubectl(rig, "-n", NAMESPACE, "get", "leases", "-o=name") == ""
    assert cluster_notes(state_dir) == []
    assert home.processes() == []


def write_note(home: ClusterRehearsal, broker: Broker) -> ClusterNote:
    """Note the rig as a run does that is killed afterwards."""
    target = ClusterTarget(
        name=f"context:{CONTEXT}",
        kubeconfig=str(home.kubeconfig),
        context=CONTEXT,
        fields={"namespace": NAMESPACE},
        bootstrap_servers=broker.bootstrap_servers,
    )
    return ClusterNote.write(Path(home.environment["LAGBENCH_STATE_DIR"]), target, "run")


def left(rig: Rig, broker: Broker) -> set[str]:
    """Return what has a run's label in the cluster, and the topics of runs."""
    kube = Kube.from_kubeconfig(str(rig.kubeconfig))
    kinds = (*WORKLOADS, *ON_A_CLUSTER, "Pod", "ScaledObject", "HorizontalPodAutoscaler")
    found = {
        f"{kind}/{item['metadata']['name']}"
        for kind in kinds
        for item in kube.list(kind, label_selector=RUN_ID_LABEL)
    }
    kube.close()
    with KafkaAdmin(broker.bootstrap_servers) as admin:
        return found | set(admin.topic_names())


def _holder_and_run(rig: Rig) -> tuple[str, str]:
    lease = json.loads(kubectl(rig, "-n", NAMESPACE, "get", "lease", LEASE, "-o=json"))
    return lease["spec"]["holderIdentity"], lease["metadata"]["annotations"][RUN_ID_ANNOTATION]
