"""``python -m tests.cluster.rig --with-broker python -m tests.cluster.sync_on_step_faults FILE``.

What goes wrong with the lag scaler's ``syncOnStep`` on the real KEDA and HPA, and what it costs.
FILE gets JSON lines; names of PARTS after FILE choose some. Lag is set by committed offsets on a
topic that stands still, and the pods are pending.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from kubernetes import client, config
from prometheus_client.parser import text_string_to_metric_families

from lagbench.adapters.kube.kube import Kube
from lagbench.core.scenario.run_names import NAMESPACE, RunNames
from lagbench.embedded.child_server import accepts_connections
from lagbench.programs.tcp_proxy.orders import ProxyOrder, order_proxy
from localkube.processes import end_process, start_tied
from tests.cluster.lagging_group import let_lag
from tests.cluster.sync_on_step import PARTITIONS, THRESHOLD, Followed, follow, keep, workload
from tests.eventually import eventually
from tests.integration.lag_scaler.scaler_process import ScalerProcess, running_scaler

TOPIC = RunNames("faults")
END = 120
"""Offset at which each partition of the topic ends."""
STAIRS = range(2, 11)
"""Pods that the steps after a fault ask for, each more than the tolerance above the last."""
STAIR_SECONDS = 6.5
"""Longer than ``syncDistanceSeconds``."""
PORT = 14_000
"""The scalers' first port: each has ten, so that KEDA has a connection for each."""
DAEMONS = ("kube-apiserver", "etcd", "kube-controller-manager", "keda-operator", "keda-adapter")
MANY, MINUTE, SWING = 100, 60.0, 2.0
CUTS: tuple[dict[str, Any], ...] = (
    {"fault": "scaler SIGTERM", "down": 0},
    {"fault": "scaler SIGKILL", "down": 0},
    {"fault": "scaler SIGKILL", "down": 45},
    {"fault": "scaler SIGKILL", "down": 120},
    {"fault": "scaler SIGKILL", "down": 45, "has_state": True},
    {"fault": "scaler SIGKILL", "down": 60, "fallback": 4},
    {"fault": "reset", "down": 1},
    {"fault": "reset", "down": 45},
    {"fault": "blackhole", "down": 45},
)
SWINGS = (("true", 1, 2), ("true", 5, 2), ("true", 30, 2), ("false", 5, 2), ("true", 5, 1))
"""``syncOnStep``, ``syncDistanceSeconds``, and between which pods and one the lag swings."""
Row = dict[str, Any]


def changes(seen: list[tuple[float, Any]], since: float) -> list[tuple[float, Any]]:
    """Return what changed, by seconds after ``since``."""
    return [(round(when - since, 3), what) for when, what in list(seen) if when >= since]


@dataclass(frozen=True)
class Group:
    """A consumer group, and what was seen of a workload that scales by its lag."""

    name: str
    seen: Followed
    admin: AdminClient

    def lag(self, pods: int) -> float:
        """Have the lag ask for ``pods``; return from when on it may."""
        offset = END - pods * THRESHOLD // PARTITIONS
        places = [TopicPartition(TOPIC.events_topic, p, offset) for p in range(PARTITIONS)]
        wanted = ConsumerGroupTopicPartitions(self.name, places)

        def is_set() -> bool:
            try:
                answer = self.admin.alter_consumer_group_offsets([wanted])[self.name].result(60)
            except KafkaException:  # the coordinator of a new group takes its time
                return False
            return all(place.error is None for place in answer.topic_partitions)

        began_at = time.time()
        eventually(is_set, f"commits of {self.name}")
        return began_at

    def decided(self, pods: int, since: float) -> Row:
        """Return when the target and the replicas changed."""
        at = eventually(lambda: self.seen.at(pods, since), f"{pods} replicas of {self.name}")
        specs = [when for when, _ in changes(self.seen.targets, since) if when <= at - since]
        decided_seconds = round(at - since, 3)
        return {"decided_seconds": decided_seconds, "spec_seconds": specs[0] if specs else None}

    def settle(self) -> None:
        """Have the lag ask for one pod, and wait until the HPA has surely read that."""
        self.lag(1)
        eventually(lambda: self.seen.hpas, f"the HPA of {self.name}")
        eventually(lambda: self.seen.replicas[-1][1] == 1, f"the floor of {self.name}")
        time.sleep(17)

    def leave_first_target(self) -> None:
        """Bring the HPA to the target with which a new scaler does not begin."""
        self.settle()
        while self.seen.targets[-1][1] == str(THRESHOLD):
            self.decided(3, self.lag(3))
            self.settle()

    def stairs(self, fault_at: float) -> list[Row]:
        """Step upwards until three steps in a row caused a sync."""
        found: list[Row] = []
        for pods in STAIRS:
            began_at = self.lag(pods)
            found.append({"at": round(began_at - fault_at, 1), **self.decided(pods, began_at)})
            if len(found) >= 3 and all(each["spec_seconds"] for each in found[-3:]):
                break
            time.sleep(max(0.0, began_at + STAIR_SECONDS - time.time()))
        return found


@dataclass(frozen=True)
class Bench:
    """What every part uses."""

    kube: Kube
    api: client.ApiClient
    seen: Mapping[str, Followed]
    admin: AdminClient
    servers: str
    folder: Path

    @contextmanager
    def scaler(self, port: int, **environment: str) -> Iterator[ScalerProcess]:
        """Run a scaler that serves at this port."""
        environment = {"PORT_GRPC": str(port), **environment}
        with running_scaler(self.folder, environment=environment) as running:
            assert running.address
            yield running

    @contextmanager
    def group(
        self,
        name: str,
        port: int,
        *,
        of: str = "",
        fallback: int = 0,
        poll: int = 5,
        **metadata: str,
    ) -> Iterator[Group]:
        """Provide a group that asks for one pod, and its workload; ``of``: another's group."""
        found = Group(of or name, self.seen[name], self.admin)
        found.lag(1)
        metadata = {
            "scalerAddress": f"127.0.0.1:{port}",
            "bootstrapServers": self.servers,
            "consumerGroup": found.name,
            "syncOnStep": "true",
            **metadata,
        }
        spec: Row = {"pollingInterval": poll}
        if fallback:
            spec["fallback"] = {"failureThreshold": 3, "replicas": fallback}
        with workload(self.kube, name, TOPIC, metadata, **spec):
            yield found

    def load(self, scaler: ScalerProcess) -> tuple[Counter[str], Counter[str]]:
        """Return the API server's requests, and CPU seconds, since the start of each."""
        answer = self.api.call_api("/metrics", "GET", _preload_content=False)
        requests: Counter[str] = Counter()
        for of, value in samples(answer.data.decode(), "apiserver_request_total"):
            what = "/".join(filter(None, (of["resource"], of["subresource"])))
            requests[f"{of['verb']} {what or of['group']}"] += round(value)
        found = {name: psutil.Process(pid_of(name)) for name in DAEMONS}
        found["lag_scaler"] = psutil.Process(scaler.process.pid)
        times = {name: process.cpu_times() for name, process in found.items()}
        return requests, Counter({name: each.user + each.system for name, each in times.items()})


def samples(text: str, name: str) -> Iterator[tuple[Mapping[str, str], float]]:
    """Yield labels and value of a metric's samples."""
    lines = "\n".join(line for line in text.splitlines() if line.startswith(f"{name}{{"))
    for family in text_string_to_metric_families(f"{lines}\n"):
        yield from ((each.labels, each.value) for each in family.samples)


def pid_of(daemon: str) -> int:
    """Return the pid of one of the rig's daemons."""
    return next(each.pid for each in psutil.process_iter(["name"]) if each.info["name"] == daemon)


def opened_streams(scaler: ScalerProcess) -> float:
    """Return how often KEDA has opened a stream of specs."""
    wanted = {"method": "StreamMetricSpec", "code": "OK"}
    found = samples(scaler.metrics, "lagbench_scaler_requests_total")
    return sum(value for labels, value in found if labels == wanted)


def watch_stream(scaler: ScalerProcess, opened: float, since: float) -> list[float]:
    """Return a list that gets the seconds after ``since`` at which KEDA opens one more."""
    found: list[float] = []

    def run() -> None:
        eventually(lambda: opened_streams(scaler) > opened, "a stream", within_seconds=300)
        found.append(round(time.time() - since, 1))

    threading.Thread(target=run, daemon=True).start()
    return found


def operator_restarted(bench: Bench) -> Iterator[Row]:
    """Restart KEDA's operator, by a crash or not, in calm and just after a step."""
    with bench.scaler(PORT) as scaler, bench.group("restart", PORT) as group:
        for is_crash, then in ((0, "calm"), (1, "calm"), (1, "stairs"), (1, "step")):
            group.leave_first_target()
            opened, operator = opened_streams(scaler), pid_of("keda-operator")
            fault_at = group.lag(8) if then == "step" else time.time()
            if is_crash:
                os.kill(operator, signal.SIGKILL)
            os.kill(int(os.environ["RIG_PID"]), signal.SIGUSR1)
            stream = watch_stream(scaler, opened, fault_at)
            row: Row = {"is_crash": is_crash, "then": then}
            if then == "step":
                row["step"] = group.decided(8, fault_at)
            if then == "stairs":
                row["stairs"] = group.stairs(fault_at)
            time.sleep(max(0.0, fault_at + 45 - time.time()))
            targets = changes(group.seen.targets, fault_at)
            yield {**row, "stream_seconds": stream, "targets": targets}


def stream_cut(bench: Bench) -> Iterator[Row]:
    """Cut KEDA's streams, all at the same time, each of a scaler of its own."""
    with ThreadPoolExecutor(len(CUTS)) as pool:
        waiting = [pool.submit(_cut, bench, number) for number in range(len(CUTS))]
        for done in as_completed(waiting):
            yield done.result()


def _cut(bench: Bench, number: int) -> Row:
    case = CUTS[number]
    fault, down, behind = case["fault"], case["down"], PORT + 10 * number
    state = {"STATE_FILE": str(bench.folder / f"state-{number}"), "STATE_SECONDS": "1"}
    environment = state if case.get("has_state") else {}
    with ExitStack() as ends:
        scaler, port = ends.enter_context(bench.scaler(behind, **environment)), behind
        if not fault.startswith("scaler"):
            port, control = behind + 1, behind + 2
            command = [sys.executable, "-m", "lagbench.programs.tcp_proxy", "--listen-port"]
            command += [str(port), f"--upstream-port={behind}", f"--control-port={control}"]
            with (bench.folder / f"proxy-{number}.log").open("ab") as log:
                proxy = start_tied(command, log=log)
            ends.callback(end_process, proxy.pid, grace_seconds=5)
            eventually(lambda: accepts_connections(control), "the proxy")
        name, fallback = f"cut-{number}", case.get("fallback", 0)
        group = ends.enter_context(bench.group(name, port, fallback=fallback))
        group.leave_first_target()
        opened, fault_at = opened_streams(scaler), time.time()
        if port != behind:
            order_proxy(control, ProxyOrder.model_validate({"mode": fault, "seconds": down}))
            time.sleep(down)
        else:
            scaler.process.send_signal(signal.Signals[fault.split()[1]])
            scaler.process.wait(60)
            time.sleep(down)
            opened, scaler = 0, ends.enter_context(bench.scaler(behind, **environment))
        back_seconds = round(time.time() - fault_at, 1)
        stream = watch_stream(scaler, opened, fault_at)
        return {
            **case,
            "back_seconds": back_seconds,
            "stairs": group.stairs(fault_at),
            "stream_seconds": stream,
            "targets": changes(group.seen.targets, fault_at),
            "replicas": changes(group.seen.replicas, fault_at),
        }


def two_objects(bench: Bench) -> Iterator[Row]:
    """Let two objects watch one group."""
    with (
        bench.scaler(PORT + 200),
        bench.group("two-a", PORT + 200) as first,
        bench.group("two-b", PORT + 200, of="two-a") as second,
    ):
        for pods in (3, 6, 4, 9):
            second.settle()
            first.settle()
            at = first.lag(pods)
            yield {"pods": pods, "objects": [each.decided(pods, at) for each in (first, second)]}


def swinging(bench: Bench) -> Iterator[Row]:
    """Let lag swing round a threshold, or stand still, for a minute."""
    with bench.scaler(port := PORT + 300), ExitStack() as ends:
        groups = []
        for number, (sync, distance, _) in enumerate(SWINGS):
            name, seconds = f"swing-{number}", str(distance)
            placed = bench.group(name, port, syncOnStep=sync, syncDistanceSeconds=seconds)
            groups.append(ends.enter_context(placed))
        for group in groups:
            group.settle()
        began_at = time.time()
        for number in range(round(MINUTE / SWING)):
            for group, (_, _, high) in zip(groups, SWINGS, strict=True):
                group.lag(1 if number % 2 else high)
            time.sleep(max(0.0, began_at + (number + 1) * SWING - time.time()))
        for group, (sync, distance, high) in zip(groups, SWINGS, strict=True):
            yield {
                "syncOnStep": sync,
                "syncDistanceSeconds": distance,
                "pods": [1, high],
                "hpa_changes_a_minute": len(changes(group.seen.targets, began_at)),
                "replica_changes_a_minute": len(changes(group.seen.replicas, began_at)),
            }


def hundred(bench: Bench) -> Iterator[Row]:
    """Step one and all of a hundred objects, with ``syncOnStep`` and without; a minute each."""
    for sync, poll in (("true", 30), ("false", 30), ("true", 5)):
        with bench.scaler(PORT) as scaler, ExitStack() as ends:
            names = [f"many-{sync}-{poll}-{number}" for number in range(MANY)]
            opened = (bench.group(name, PORT, poll=poll, syncOnStep=sync) for name in names)
            groups = [ends.enter_context(each) for each in opened]
            eventually(lambda: all(each.seen.hpas for each in groups), "their HPAs")  # noqa: B023
            time.sleep(MINUTE)
            for stepped in ([], groups[:1], groups, groups):
                before, began_at = bench.load(scaler), time.time()
                begun = [group.lag(3) for group in stepped]
                issued_seconds = round(time.time() - began_at, 2)
                decided = [of.decided(3, at) for of, at in zip(stepped, begun, strict=True)]
                time.sleep(max(0.0, began_at + MINUTE - time.time()))
                after = bench.load(scaler)
                requests, cpu = (new - old for new, old in zip(after, before, strict=True))
                yield {
                    "syncOnStep": sync,
                    "pollingInterval": poll,
                    "stepped": len(stepped),
                    "issued_seconds": issued_seconds,
                    "decided_seconds": sorted(each["decided_seconds"] for each in decided),
                    "spec_seconds": sorted(each["spec_seconds"] or -1 for each in decided),
                    "over_seconds": round(time.time() - began_at, 1),
                    "hpa_changes": sum(len(changes(of.seen.targets, began_at)) for of in groups),
                    "requests": sum(requests.values()),
                    "requests_by": dict(requests.most_common(16)),
                    "cpu_seconds": {name: round(value, 1) for name, value in cpu.items()},
                }
                for group in stepped:
                    group.lag(1)
                for group in stepped[-1:]:
                    group.settle()


def apart(bench: Bench) -> Iterator[Row]:
    """Run at the same time what does not touch each other."""
    parts = (stream_cut, two_objects, swinging)
    with ThreadPoolExecutor(len(parts)) as pool:
        waiting = {pool.submit(list, part(bench)): part.__name__ for part in parts}
        for done in as_completed(waiting):
            yield from ({"part": waiting[done], **row} for row in done.result())


PARTS = {"apart": apart, "operator": operator_restarted, "hundred": hundred}


def main(arguments: list[str]) -> None:
    """Write a line for each thing measured, as soon as it is."""
    file, parts = Path(arguments[0]), arguments[1:] or list(PARTS)
    kube = Kube.from_kubeconfig(os.environ["KUBECONFIG"])
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    servers = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
    let_lag(servers, TOPIC, END * PARTITIONS, partitions=PARTITIONS)
    api = config.new_client_from_config(os.environ["KUBECONFIG"])
    version = client.VersionApi(api).get_code().git_version
    with tempfile.TemporaryDirectory() as folder:
        admin = AdminClient({"bootstrap.servers": servers})
        bench = Bench(kube, api, follow(api), admin, servers, Path(folder))
        for part in parts:
            around = {"kubernetes": version, "part": part}
            rows = PARTS[part](bench)
            keep(({**around, "load_average": os.getloadavg()[0], **row} for row in rows), file)
    kube.close()


if __name__ == "__main__":
    main(sys.argv[1:])
