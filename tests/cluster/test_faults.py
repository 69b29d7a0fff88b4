"""Setup: the rig with somebody else's objects on it; rehearsals that suffer faults in mid-spike.

1. Start ``lagbench run --target context:…``; once lag builds up, break one thing after the other.
2. Read accounting, verdict and telemetry. 3. Look for anything that is left or was touched.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.clocks import clock_set
from lagbench.core.measures.evidence.pod_timeline import pod_timelines
from lagbench.core.scenario.run_names import (
    CONSUMER_DEPLOYMENT,
    LAG_SCALER,
    NAMESPACE,
    RUN_ID_LABEL,
)
from lagbench.core.telemetry.records_of_recorder import ReplicaSample
from lagbench.embedded.broker import Broker
from lagbench.errors import ExitCode
from lagbench.results.run_tables import read_telemetry
from tests.cluster.cluster_rehearsal import (
    ClusterRehearsal,
    kubectl,
    lag_scaler_has_a_name,
)
from tests.cluster.fault_bystanders import Bystanders
from tests.cluster.rig.node import NODE
from tests.cluster.rig.rig import Rig
from tests.e2e.rehearsal import DATA, wait_until
from tests.eventually import eventually

pytestmark = pytest.mark.timeout(2700)
AWAY_SECONDS = 20.0
# A fraction of the tiny spike: 300/s for 35 s, and pods of 125/s each, to leave the cores to Spark.
LIGHT = (
    "profile.rate_per_second=30",
    "profile.spike_hold_seconds=35",
    "consumer.process_ms=8",
)
# Lag for as long as the spike lasts, which one pod works off in 20 s: nothing scales meanwhile.
FOR_ONE_POD = "consumer.process_ms=5"
MORE_THAN_THREE_DO = "profile.rate_per_second=40"  # all three are there when the node is drained
CODES = {
    "pass": ExitCode.PASS,
    "fail": ExitCode.SLO_FAILED,
    "undetermined": ExitCode.UNDETERMINED,
}


@pytest.fixture(scope="module")
def bystanders(rig: Rig, rig_broker: Broker, home: ClusterRehearsal) -> Iterator[Bystanders]:
    """Provide what others have in the cluster and in Kafka."""
    theirs = Bystanders(rig, rig_broker)
    theirs.settle()
    yield theirs
    theirs.remove()


def test_what_scales_and_stores_goes_away_in_mid_spike(
    rig: Rig, rig_broker: Broker, home: ClusterRehearsal, bystanders: Bystanders
) -> None:
    """A pod evicted, KEDA's operator and Kafka restarted, the API server away for 20 s."""
    before = bystanders.versions()
    process = home.start_run(*LIGHT, FOR_ONE_POD, options=home.target_options)
    home.wait_for_phase("lag_builds_up", "finished")
    faults = PodFaults(rig)
    # First: after the outage the kubelet takes up to 50 s to find the API server again.
    evicted = faults.evict_consumer()
    rig.restart_keda_operator()
    with rig.without_api_server():
        away_at = time.time_ns()
        wait_until(_elapsed(AWAY_SECONDS), "20 s without an API server", limit_seconds=120)
        back_at = time.time_ns()
    rig_broker.stop()
    rig_broker.start()
    home.wait_for_phase("lag_at_rest", "finished")  # the producer goes with its tail
    restarts = faults.restarts()
    code = home.finish(process)

    assert_nothing_is_lost(home, code)
    assert {evicted} < set(home.read("accounting.json")["by_pod"])
    assert restarts  # of consumers, recorder and producer
    assert not any(restarts.values()), restarts
    assert_outage_is_a_gap(home, away_at, back_at)
    assert_only_its_own_is_gone(home, bystanders, before)


def test_what_runs_on_the_node_goes_away_in_mid_spike(
    rig: Rig, home: ClusterRehearsal, bystanders: Bystanders, tmp_path: Path
) -> None:
    """The lag scaler's pod restarted, then the node drained of consumers, recorder and scaler."""
    before = bystanders.versions()
    policy = str(DATA / "policies" / "scaler-tiny.yaml")
    options = (*home.target_options, "--policy", policy)
    faults = PodFaults(rig)
    with lag_scaler_has_a_name(rig, tmp_path):
        process = home.start_run(*LIGHT, MORE_THAN_THREE_DO, options=options)
        home.wait_for_phase("lag_builds_up", "finished")
        eventually(lambda: len(faults.ready("consumer")) > 1, "it scales up")
        faults.restart_lag_scaler()
        evicted = faults.drain_node()
        code = home.finish(process)

    assert len(evicted) > 1
    assert_nothing_is_lost(home, code)
    assert len({sample.source for sample in replica_samples(home)}) == 2  # of two recorders
    assert_every_end_is_known(home, evicted)
    assert_only_its_own_is_gone(home, bystanders, before)


def assert_nothing_is_lost(home: ClusterRehearsal, code: int) -> None:
    """Every message was processed; verdict and exit code say what the accounting says."""
    accounting, verdict = home.read("accounting.json"), home.read("verdict.json")
    found = home.output()
    assert accounting["lost"] == 0, found
    assert accounting["not_yet_consumed"] == 0, found
    assert accounting["processed_distinct"] == accounting["in_log"], found
    # On slow cores Kafka starts so late that the producer gives up: the verdict must say so then.
    gave_up = any("did not complete its stream" in reason for reason in verdict["invalid"])
    assert accounting["in_log"] >= accounting["produced_acked"] > 0, found
    assert gave_up or accounting["in_log"] == accounting["planned"], found
    # Kafka was away for longer than the producer may wait: that run tells of no policy.
    was_late = any("received the load late" in reason for reason in verdict["invalid"])
    for slo, count in (("lost", "lost"), ("duplicated", "duplicated"), ("reordered", "reordered")):
        unfailed = "undetermined" if was_late else "pass"
        status = "fail" if accounting[count] else unfailed
        assert home.slo(slo)["status"] == status, found
    statuses = {slo["status"] for slo in verdict["slos"]}
    if verdict["status"] == "pass":
        assert statuses <= {"pass", "not_judged"}
    assert (verdict["status"] == "fail") == ("fail" in statuses)
    assert code == CODES[verdict["status"]], found


def assert_outage_is_a_gap(home: ClusterRehearsal, away_at: int, back_at: int) -> None:
    """Find no samples of the outage, zero or other, and a gap that says so."""
    gaps: list[dict[str, Any]] = home.read("measures.json")["validity"]["telemetry_gaps"]
    longest: dict[str, float] = {}
    for gap in gaps:
        longest[gap["what"]] = max(longest.get(gap["what"], 0), gap["gap_seconds"])
    assert min(longest["replicas"], longest["hpa"]) > AWAY_SECONDS - 8, gaps
    # Kafka's restart: a gap too, and an end to it (the client's own is five minutes).
    assert 0 < longest["lag"] < 240, gaps
    assert longest.get("group", 0) < 240, gaps
    replicas = replica_samples(home)
    assert not [sample for sample in replicas if away_at < sample.at < back_at]
    assert min(sample.spec for sample in replicas) >= 1


def assert_every_end_is_known(home: ClusterRehearsal, evicted: Iterable[str]) -> None:
    """Find an end of each consumer that left the node, also while no recorder ran."""
    records, _ = read_telemetry(RunFolder(home.folder()))
    timelines = pod_timelines(records, clock_set(records, "kubernetes"))
    found = [timelines[pod] for pod in evicted if pod in timelines]
    assert found
    assert [timeline.pod for timeline in found if timeline.gone_at is None] == []


def replica_samples(home: ClusterRehearsal) -> list[ReplicaSample]:
    """Return what the recorders have seen of the Deployment."""
    records, _ = read_telemetry(RunFolder(home.folder()))
    return [record for record in records if isinstance(record, ReplicaSample)]


def assert_only_its_own_is_gone(
    home: ClusterRehearsal, bystanders: Bystanders, before: dict[str, str]
) -> None:
    """Nothing of the run is left, and nothing of others was touched."""
    run_id = home.folder().name
    eventually(lambda: not bystanders.left_by_run(run_id), "nothing left")
    assert bystanders.versions() == before
    assert [process.cmdline() for process in home.processes()] == []


def _elapsed(seconds: float) -> Callable[[], bool]:
    until = time.monotonic() + seconds
    return lambda: time.monotonic() >= until


_DRAIN_LIMIT_SECONDS = 300
# kubectl's words for the API server's 429: the budget allows no further eviction now.
_HELD_BY_BUDGET = "disruption budget"


@dataclass
class PodFaults:
    """Faults of the run's pods, seen from outside."""

    rig: Rig

    def __post_init__(self) -> None:
        """Connect as the administrator."""
        api = config.new_client_from_config(str(self.rig.kubeconfig))
        self._core = client.CoreV1Api(api)

    def ready(self, workload: str) -> list[str]:
        """Return the Ready pods of a Deployment that nobody has asked to go, oldest first."""
        selector = f"app.kubernetes.io/name={workload}"
        found = self._core.list_namespaced_pod(NAMESPACE, label_selector=selector).items
        found.sort(key=lambda pod: pod.metadata.creation_timestamp)
        return [
            str(pod.metadata.name)
            for pod in found
            if pod.metadata.deletion_timestamp is None
            and any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions or [])
        ]

    def evict_consumer(self) -> str:
        """Evict the oldest consumer through the Eviction API, as a drain does; returns its name.

        The disruption budget may hold it up while others are not Ready yet.
        """
        victim = self.ready(CONSUMER_DEPLOYMENT)[0]
        eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name=victim, namespace=NAMESPACE))

        def is_let() -> bool:
            try:
                self._core.create_namespaced_pod_eviction(victim, NAMESPACE, eviction)
            except client.ApiException as error:
                if error.status != HTTPStatus.TOO_MANY_REQUESTS:
                    raise
                return False
            return True

        eventually(is_let, "the budget allows an eviction")
        return victim

    def restarts(self) -> dict[str, int]:
        """Return how often the containers of each of the run's pods ended and were restarted."""
        found = self._core.list_namespaced_pod(NAMESPACE, label_selector=RUN_ID_LABEL).items
        return {
            str(pod.metadata.name): sum(c.restart_count for c in pod.status.container_statuses)
            for pod in found
            if pod.status.container_statuses
        }

    def restart_lag_scaler(self) -> str:
        """Delete the lag scaler's pod and wait for the next one; returns the old one's name."""
        (old,) = self.ready(LAG_SCALER)
        self._core.delete_namespaced_pod(old, NAMESPACE)
        eventually(lambda: self.ready(LAG_SCALER) not in ([], [old]), "a new scaler")
        return old

    def drain_node(self) -> set[str]:
        """Drain the only node and give it back while the drain continues; returns who had to go.

        The producer is left out: it is no part of what an autoscaler scales, and without it there
        is no spike. The node is given back once the budget has stopped the drain: there is no
        other node, so what was evicted waits for this one.
        """
        before = set(self.ready(CONSUMER_DEPLOYMENT))
        with _draining(self.rig) as drain:
            # With one consumer the budget stops nobody: its pod goes at once.
            if len(before) > 1:
                drain.await_line(_HELD_BY_BUDGET)
            kubectl(self.rig, "uncordon", NODE)
            drain.await_end()
        return before - set(self.ready(CONSUMER_DEPLOYMENT))


class _Drain:
    """A running ``kubectl drain`` whose lines are read as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def await_line(self, part: str) -> None:
        """Wait until kubectl has said it."""
        eventually(
            lambda: any(part in line for line in self._lines) or self._process.poll() is not None,
            part,
            within_seconds=_DRAIN_LIMIT_SECONDS,
        )

    def await_end(self) -> None:
        """Wait until every pod that was to go is gone."""
        code = self._process.wait(timeout=_DRAIN_LIMIT_SECONDS)
        self._reader.join(timeout=60)
        assert code == 0, "".join(self._lines)

    def _read(self) -> None:
        assert self._process.stdout is not None
        self._lines.extend(iter(self._process.stdout.readline, ""))


@contextmanager
def _draining(rig: Rig) -> Iterator[_Drain]:
    command = [rig.kubectl, "--kubeconfig", str(rig.kubeconfig), "drain", NODE]
    command += ["--ignore-daemonsets", "--delete-emptydir-data"]
    command += ["--pod-selector=app.kubernetes.io/name!=producer"]
    process = subprocess.Popen(
        [*command, f"--timeout={_DRAIN_LIMIT_SECONDS}s"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield _Drain(process)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(timeout=60)
        kubectl(rig, "uncordon", NODE)
