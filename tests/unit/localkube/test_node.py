"""The node: containers that start again, what a container is given, what it uses."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.localkube_cluster import KILLED, LABELS, PLACE, Cluster, on_cluster

from lagbench.programs.recorder.pod_watch import pod_seen
from localkube.kinds import CONFIG_MAP, DEPLOYMENT, JOB, POD, STATEFUL_SET, Resource
from localkube.kube_objects import ApiError, KubeObject
from localkube.node import container_runner
from localkube.node.pod_environment import (
    ContainerConfigFault,
    LaunchPlan,
    NodeEnvironment,
    inheritable,
    plan_launch,
    variable_of,
    with_own_python,
)
from localkube.node.pod_metrics import read_sessions
from localkube.storage.object_store import Store
from localkube.warm_start.client import forked_executable


@pytest.mark.parametrize("resource", [DEPLOYMENT, STATEFUL_SET])
def test_a_killed_container_costs_its_workload_no_pod(resource: Resource, tmp_path: Path) -> None:
    """Killed and not started yet, its pod is Running, counts as a replica and is not replaced."""

    async def check(cluster: Cluster) -> None:
        starter = cluster.add_node(tmp_path)
        cluster.create(resource, selector={"matchLabels": LABELS}, replicas=1)
        await cluster.settle()
        before = [pod.uid for pod in cluster.pods()]
        starter.door.clear()
        starter.started[0].kill()
        await cluster.settle()

        assert [pod.uid for pod in cluster.pods()] == before
        assert cluster.pods()[0].status["phase"] == "Running"
        status = cluster.get(resource).status
        assert (status["replicas"], status["readyReplicas"]) == (1, 0)
        seen = pod_seen(cluster.pods()[0], at=1, source="recorder", gone_at=None)
        assert (seen.exit_code, seen.exit_reason) == (KILLED, "Error")

        starter.door.set()
        await cluster.settle()
        assert [pod.uid for pod in cluster.pods()] == before
        container = cluster.pods()[0].container_statuses[0]
        assert "running" in container["state"]
        assert container["restartCount"] == 1
        assert container["lastState"]["terminated"]["exitCode"] == KILLED
        seen = pod_seen(cluster.pods()[0], at=2, source="recorder", gone_at=None)
        assert seen.containers_ended == 1
        assert {status["phase"] for status in cluster.statuses} == {"Pending", "Running"}

    on_cluster(check)


def test_a_job_takes_the_success_of_a_restarted_container(tmp_path: Path) -> None:
    """With OnFailure the pod fails once, runs again and succeeds: the job has no failed pod."""

    async def check(cluster: Cluster) -> None:
        starter = cluster.add_node(tmp_path)
        cluster.create(JOB, "OnFailure")
        for number, code in enumerate((1, 0)):
            await cluster.settle()
            starter.started[number].end(code)
        await cluster.settle()

        status = cluster.get(JOB).status
        assert (status["succeeded"], status["failed"]) == (1, 0)
        assert [entry["type"] for entry in status["conditions"]] == ["Complete"]

    on_cluster(check)


def test_a_pod_whose_init_container_starts_again_has_not_failed(tmp_path: Path) -> None:
    """An init container that failed once keeps the pod Pending, and the next one then runs."""

    async def check(cluster: Cluster) -> None:
        starter = cluster.add_node(tmp_path)
        cluster.create(POD, initContainers=[{"name": "first", "command": ["x"]}])
        for number, code in enumerate((1, 0)):
            await cluster.settle()
            starter.started[number].end(code)
        await cluster.settle()

        assert cluster.pods()[0].status["phase"] == "Running"
        assert {status["phase"] for status in cluster.statuses} == {"Pending", "Running"}

    on_cluster(check)


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [("Never", 1, "Failed"), ("Never", 0, "Succeeded"), ("OnFailure", 0, "Succeeded")],
)
def test_the_last_end_of_a_container_ends_its_pod(
    policy: str, code: int, phase: str, tmp_path: Path
) -> None:
    """Where the policy starts it no more, the first status that shows the end has the phase."""

    async def check(cluster: Cluster) -> None:
        starter = cluster.add_node(tmp_path)
        cluster.create(POD, policy)
        await cluster.settle()
        starter.started[0].end(code)
        await cluster.settle()

        ended = [
            status["phase"]
            for status in cluster.statuses
            if "terminated" in status.get("containerStatuses", [{"state": {}}])[0]["state"]
        ]
        assert ended == [phase]

    on_cluster(check)


def test_a_container_that_is_stopped_before_its_restart_keeps_its_exit_code(tmp_path: Path) -> None:
    """Deleted between the end and the next start, the pod ends with what its container said."""

    async def check(cluster: Cluster) -> None:
        starter = cluster.add_node(tmp_path)
        cluster.create(POD, terminationGracePeriodSeconds=1)
        await cluster.settle()
        starter.door.clear()
        starter.started[0].end(3)
        await cluster.settle()
        cluster.deletion.delete(POD, cluster.pods()[0])
        await cluster.settle()

        last = cluster.statuses[-1]
        assert (cluster.pods(), last["phase"]) == ([], "Failed")
        assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3

    on_cluster(check)


def test_a_crashing_container_is_restarted_with_back_off(tmp_path: Path) -> None:
    """The first restart comes at once, the next one waits in CrashLoopBackOff."""

    async def check(cluster: Cluster) -> None:
        starter = cluster.add_node(tmp_path)
        cluster.create(POD)
        for number in range(2):
            await cluster.settle()
            starter.started[number].end(1)
        await cluster.settle()

        found = cluster.pods()[0].container_statuses[0]
        assert found["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert found["restartCount"] == 2
        assert found["lastState"]["terminated"]["exitCode"] == 1

    on_cluster(check)


def test_what_cannot_be_started_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing config map holds the container back until it is there."""
    monkeypatch.setattr(container_runner, "_CONFIG_RETRY_SECONDS", 0.01)

    async def check(cluster: Cluster) -> None:
        starter = cluster.add_node(tmp_path)
        source = {"configMapKeyRef": {"name": "late", "key": "x"}}
        main = {"name": "main", "command": ["x"], "env": [{"name": "X", "valueFrom": source}]}
        cluster.create(POD, containers=[main])
        await cluster.settle()
        waiting = cluster.pods()[0].container_statuses[0]["state"]["waiting"]
        late = {"metadata": {"name": "late"}, "data": {"x": "1"}}
        cluster.registry.create(CONFIG_MAP, late, PLACE)
        await asyncio.sleep(0.1)

        assert waiting["reason"] == "CreateContainerConfigError"
        assert '"late"' in waiting["message"]
        assert len(starter.started) == 1

    on_cluster(check)


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"signal": "SIGHUP"}, "SIGKILL"),
        ({"signal": "SIGSTOP"}, "seconds"),
        ({"signal": "SIGSTOP", "seconds": 0}, "seconds"),
        ({"signal": "SIGCONT"}, "no running process"),
    ],
)
def test_a_wrong_signal_is_named(body: dict[str, Any], word: str, tmp_path: Path) -> None:
    """Only these three signals are sent to a process that runs, and a stop has an end."""

    async def check(cluster: Cluster) -> None:
        cluster.add_node(tmp_path).door.clear()
        cluster.create(POD)
        assert cluster.node is not None
        with pytest.raises(ApiError, match=word):
            cluster.node.send_signal(cluster.pods()[0], body)

    on_cluster(check)


def test_what_a_pod_inherits_where_nobody_chose_it() -> None:
    """Harmless variables only, and the python that runs localkube comes first."""
    given = {"HOME": "/h", "PATH": "/bin", "LC_ALL": "C", "API_TOKEN": "t", "HOMEBREW_TOKEN": "t"}

    kept = with_own_python(inheritable(given))

    assert set(kept) == {"HOME", "PATH", "LC_ALL", "PYTHONUNBUFFERED"}
    assert kept["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}/bin"


def test_usage_is_summed_per_session(tmp_path: Path) -> None:
    """Processes of one session add up, children waited for included; odd names do no harm."""
    for pid, command, session, ticks, pages in (
        (10, "python", 10, (100, 50, 25, 25), 3),
        (11, "a) b (c", 10, (100, 0, 0, 0), 1),
        (12, "other", 12, (1, 0, 0, 0), 1),
    ):
        (tmp_path / str(pid)).mkdir()
        before = f"{pid} ({command}) S 1 {session} {session} 0 -1 4194304 0 0 0 0 "
        after = " ".join(map(str, ticks)) + f" 20 0 1 0 5 1000 {pages} 0"
        (tmp_path / str(pid) / "stat").write_text(before + after)
    (tmp_path / "meminfo").write_text("not a process")

    sessions = read_sessions(tmp_path)

    assert sessions[10].cpu_seconds == 300 / os.sysconf("SC_CLK_TCK")
    assert sessions[10].memory_bytes == 4 * os.sysconf("SC_PAGE_SIZE")
    assert set(sessions) == {10, 12}


CONTAINER: dict[str, Any] = {
    "name": "orders",
    "command": ["python", "orders.py", "--config=$(VOLUME_APP_CONFIG)/a.yaml"],
    "env": [{"name": "LISTEN", "value": "127.0.0.1:$(PORT_METRICS_HTTP)"}],
    "volumeMounts": [
        {"name": "app-config", "mountPath": "/etc/app"},
        {"name": "cache", "mountPath": "/var/cache"},
    ],
}


def planned(folder: Path, store: Store) -> LaunchPlan:
    """Return the plan of the container in a pod with four volumes."""
    volumes = [
        {"name": "app-config", "configMap": {"name": "app"}},
        {"name": "cache", "emptyDir": {}},
        {"name": "not-mounted", "emptyDir": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    pod = KubeObject(
        metadata={"name": "orders-1", "namespace": "lagbench", "uid": "u"},
        spec={"automountServiceAccountToken": False, "containers": [CONTAINER], "volumes": volumes},
    )
    node = NodeEnvironment({}, Path("/kubeconfig"), store)
    return plan_launch(pod, CONTAINER, {"metrics-http": 40_001}, node, folder)


def test_folders_and_ports_of_a_container_are_in_variables(tmp_path: Path) -> None:
    """EmptyDir and ConfigMap are folders of the pod; other volumes are none."""
    store = Store()
    metadata = {"name": "app", "namespace": "lagbench", "uid": "c"}
    store.insert(CONFIG_MAP, KubeObject(metadata=metadata, data={"a.yaml": "currency: EUR"}))

    plan = planned(tmp_path, store)

    config = tmp_path / "volumes" / "app-config"
    assert plan.command[-1] == f"--config={config}/a.yaml"
    assert (config / "a.yaml").read_text() == "currency: EUR"
    assert Path(plan.environment["VOLUME_CACHE"]).is_dir()
    assert not {"VOLUME_NOT_MOUNTED", "VOLUME_DATA"} & set(plan.environment)
    assert plan.environment["LISTEN"] == "127.0.0.1:40001"
    assert variable_of("PORT", "metrics-http") == "PORT_METRICS_HTTP"


def test_a_missing_config_map_keeps_the_container_from_starting(tmp_path: Path) -> None:
    """As the kubelet does: the container waits with the reason."""
    with pytest.raises(ContainerConfigFault, match='"app"'):
        planned(tmp_path, Store())


OWN = Path(sys.executable)
WARM = {"PATH": f"{OWN.parent}:/bin", "PYTHONPATH": "/src", "HOME": "/root", "OTHER": "1"}
PLAN = LaunchPlan(
    [OWN.name, "-m", "mine.consumer", "--run-id=a"],
    WARM | {"POD_NAME": "a", "OTHER": "2"},
    Path("/tmp"),  # noqa: S108 - never opened
)


def test_a_program_of_the_prefix_is_forked() -> None:
    """Its interpreter is the one on PATH; variables that nobody reads early may differ."""
    by_path = replace(PLAN, command=[str(OWN), *PLAN.command[1:]])
    assert forked_executable(PLAN, ("mine.",), WARM) == str(OWN)
    assert forked_executable(by_path, ("mine.",), WARM) == str(OWN)


@pytest.mark.parametrize(
    "changed",
    [
        {"command": ["sh", "-c", "true"]},
        {"command": [OWN.name, "-c", "pass"]},
        {"command": [OWN.name, "-u", "-m", "mine.consumer"]},
        {"command": [OWN.name, "-m", "localkube"]},
        {"command": [OWN.name, "-m"]},
        {"command": ["/usr/bin/env", "-m", "mine.consumer"]},
        {"command": ["no-such-python", "-m", "mine.consumer"]},
        {"environment": PLAN.environment | {"X": "x" * 131_072}},
        {"environment": PLAN.environment | {"X": "a\0b"}},
        {"has_own_folder": False},  # its modules would come first
        *(
            {"environment": PLAN.environment | {name: "other"}}
            for name in ("PYTHONPATH", "PYTHONHASHSEED", "LD_PRELOAD", "LC_ALL", "TZ", "HOME")
        ),
    ],
    ids=str,
)
def test_what_a_fork_would_start_otherwise_is_executed(changed: dict[str, Any]) -> None:
    """Another program, flag or interpreter; what an exec refuses; what is read only at a start."""
    assert forked_executable(replace(PLAN, **changed), ("mine.",), WARM) is None
