"""Drive kept traces of the real KEDA and HPA again, all at once, and record what happens now.

Lag is set by committing offsets, at the times of the kept trace. The pods stay pending: nobody
reads the topics, and the HPA counts ``status.replicas``. What is recorded has the kept format.
"""

from __future__ import annotations

import copy
import gzip
import json
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kubernetes import client, config, watch

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from tests.cluster.lagging_group import idle_consumers
from tests.cluster.live_admission import LiveApi
from tests.cluster.record.hpa_log import read_syncs
from tests.cluster.rig.versions import Versions
from tests.conformance.real_keda_replay import Replay
from tests.conformance.real_keda_trace import Line, Trace, read_trace
from tests.eventually import eventually

CHOSEN = ("z30", "idle-off", "inplace-num", "rnd-3")
"""From zero; idling; each number changed in place; random policies. All lag is set by commits."""
_AFTER_SECONDS = 90.0
_RECORDS = 500  # of each partition: more than any lag
_NAMESPACE = "default"
_KEPT_BROKER = "10.99.0.1:9092"
_APPLIED_SECONDS = 5.0  # what was applied within this time of the first object belongs to it


@dataclass(slots=True)
class Recording:
    """One trace that is driven again."""

    kept: Trace
    servers: str
    lines: list[Line] = field(default_factory=list)
    _seen: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the name of the Deployment and of the ScaledObject."""
        return f"w-{self.kept.name}"

    @property
    def documents(self) -> list[dict[str, Any]]:
        """Return what is applied at first."""
        pending = idle_consumers(_NAMESPACE, 0, name=self.name, has_node=False)
        pending["spec"]["replicas"] = self.kept.deployment["spec"].get("replicas", 1)
        return [pending, self.placed(self.kept.scaled_object)]

    def placed(self, manifest: Line) -> dict[str, Any]:
        """Return a kept manifest with the broker of now."""
        text = json.dumps(manifest).replace(_KEPT_BROKER, self.servers)
        return json.loads(text)  # type: ignore[no-any-return]

    def plan(self) -> list[tuple[float, Callable[[LiveApi], None]]]:
        """Return what happens when, in seconds since the objects were applied."""
        began_at = self.kept.applied_at
        planned: list[tuple[float, Callable[[LiveApi], None]]] = []
        for line in self.kept.of_kind("setlag"):
            after = line["t_before_commit"] - began_at
            planned.append((after, lambda _, line=line: self.set_lag(_lags(line))))
        for line in self.kept.of_kind("step"):
            after = line["t"] - began_at
            if line["op"] == "apply" and after > _APPLIED_SECONDS:
                planned.append((after, lambda api, doc=line["doc"]: self.apply(api, doc)))
        return sorted(planned, key=lambda item: item[0])

    def set_lag(self, lags: list[int]) -> None:
        """Commit offsets so that the partitions lag by so much."""
        metadata = self.kept.scaled_object["spec"]["triggers"][0]["metadata"]
        group, topic = metadata["consumerGroup"], metadata["topic"]
        places = [TopicPartition(topic, n, _RECORDS - lag) for n, lag in enumerate(lags)]
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": group})

        def committed() -> Line | None:
            began_at = time.time()
            try:
                consumer.commit(offsets=places, asynchronous=False)
            except KafkaException:  # the coordinator of a new group takes its time
                return None
            return {"t_before_commit": began_at, "t_committed": time.time()}

        times = eventually(committed, f"commits of {group}")
        consumer.close()
        line = {"event": "setlag", "group": "g", "lag": sum(lags), "lags": lags}
        self.lines.append({"kind": "setlag", **line, **times})

    def apply(self, api: LiveApi, manifest: Line) -> None:
        """Apply a manifest."""
        began_at, placed = time.time(), self.placed(manifest)
        answer = api.send(placed, _NAMESPACE)
        assert answer.is_accepted, answer.message
        step = {"op": "apply", "code": answer.code, "doc": placed}
        self.lines.append({"kind": "step", **step, "t": began_at, "t_end": time.time()})

    def take(self, obj: str, kind: str, found: Line) -> None:
        """Write what a watch told of one of its objects."""
        metadata, spec, status = found["metadata"], found.get("spec"), found.get("status") or {}
        line = {"kind": "watch", "obj": obj, "t": time.time(), "type": kind}
        if obj == "deploy":
            line["spec_replicas"] = spec["replicas"]  # type: ignore[index]
            line["status_replicas"] = status.get("replicas")
            line["ready"] = status.get("readyReplicas")
        elif obj == "hpa":
            line |= {"uid": metadata["uid"], "desired": status.get("desiredReplicas")}
        elif obj == "so":
            line["annotations"] = metadata.get("annotations")
            line["lastActiveTime"] = status.get("lastActiveTime")
            line["triggersActivity"] = status.get("triggersActivity")
            conditions = status.get("conditions") or []
            line["conditions"] = [
                f"{item['type']}={item['status']}:{item.get('reason')}" for item in conditions
            ]
        else:
            line |= {"reason": found.get("reason"), "message": found.get("message")}
        if obj in ("hpa", "so") and self._seen.get(obj) != spec:
            self._seen[obj] = line["spec"] = copy.deepcopy(spec)
        self.lines.append(line)

    def write(self, folder: Path, log: Path, versions: Versions) -> Path:
        """Write the files of the trace; returns the trace's own."""
        began_at = next(line["t"] for line in self.lines if line["kind"] == "step")
        syncs = read_syncs(log.read_text(errors="replace").splitlines(), self.name, began_at)
        name = self.kept.name
        metadata = self.kept.scaled_object["spec"]["triggers"][0]["metadata"]
        group = {"ID": "g", "Name": metadata["consumerGroup"], "Topic": metadata["topic"]}
        meta = {
            "name": name,
            "kubernetes": versions.kubernetes.rpartition(".")[0],
            "keda": versions.keda,
            "T0": began_at,
            "groups": [{**group, "Broker": "b1"}],
        }
        for ending, lines in (("", self.lines), (".syncs", syncs)):
            text = self._as_kept("".join(f"{json.dumps(line)}\n" for line in lines))
            path = folder / f"{name}{ending}.jsonl.gz"
            path.write_bytes(gzip.compress(text.encode(), mtime=0))
        applied = yaml.safe_dump_all(self.documents, sort_keys=False)
        (folder / f"{name}.yaml").write_text(self._as_kept(applied))
        (folder / f"{name}.meta.json").write_text(json.dumps(meta, indent=1) + "\n")
        return folder / f"{name}.jsonl.gz"

    def _as_kept(self, text: str) -> str:
        return text.replace(self.servers, _KEPT_BROKER)


def record(
    kept: Path, folder: Path, *, kubeconfig: Path, servers: str, log: Path, versions: Versions
) -> dict[str, list[str]]:
    """Record the chosen traces into ``folder``; returns what the replay of each does otherwise."""
    recordings = [Recording(read_trace(kept / f"{name}.jsonl.gz"), servers) for name in CHOSEN]
    _make_topics(recordings, servers)
    api = LiveApi(kubeconfig)
    _watch(recordings, kubeconfig)
    over = threading.Event()
    threading.Thread(target=_sample, args=(recordings, kubeconfig, over), daemon=True).start()
    driven = [threading.Thread(target=_drive, args=(recording, api)) for recording in recordings]
    for thread in driven:
        thread.start()
    for thread in driven:
        thread.join()
    over.set()
    folder.mkdir(parents=True, exist_ok=True)
    return {
        recording.kept.name: _differences(recording.write(folder, log, versions))
        for recording in recordings
    }


def keep(recorded: Path, kept: Path) -> None:
    """Put recorded traces in the place of the kept ones."""
    for path in recorded.iterdir():
        for old in kept.glob(f"{path.name.removesuffix('.gz')}*"):
            old.unlink()
        shutil.copy(path, kept)


def _differences(path: Path) -> list[str]:
    outcome = Replay(read_trace(path)).run()
    if outcome.passes:
        return []
    seconds = f"spec.replicas equal on {outcome.seconds_equal} of {outcome.seconds} seconds"
    counted = f"{len(outcome.differences)} of {outcome.compared} decisions differ, {seconds}"
    return [": ".join([counted, *outcome.differences[:1]])]


def _drive(recording: Recording, api: LiveApi) -> None:
    plan, pause = recording.plan(), threading.Event()
    for _, act in (item for item in plan if item[0] < 0):
        act(api)
    for document in recording.documents:
        recording.apply(api, document)
    began_at = time.monotonic()
    for after, act in (item for item in plan if item[0] >= 0):
        pause.wait(max(began_at + after - time.monotonic(), 0))
        act(api)
    pause.wait(_AFTER_SECONDS)


def _lags(line: Line) -> list[int]:
    """Return the lag of each partition; the older traces tell the total of 20 alone."""
    share, rest = divmod(line["lag"], 20)
    return line.get("lags") or [share + (number < rest) for number in range(20)]


def _make_topics(recordings: list[Recording], servers: str) -> None:
    wanted = {
        recording.kept.scaled_object["spec"]["triggers"][0]["metadata"]["topic"]: len(
            _lags(next(recording.kept.of_kind("setlag")))
        )
        for recording in recordings
    }
    with KafkaAdmin(servers) as admin:
        admin.create_topics([TopicSpec(topic, count, {}) for topic, count in wanted.items()])
    producer = Producer({"bootstrap.servers": servers})
    for topic, count in wanted.items():
        for number in range(count * _RECORDS):
            producer.produce(topic, b"x", partition=number % count)
        assert producer.flush(120) == 0


def _watch(recordings: list[Recording], kubeconfig: Path) -> None:
    """Follow all objects of the namespace from now on."""
    api = config.new_client_from_config(str(kubeconfig))
    custom, names = client.CustomObjectsApi(api), {item.name: item for item in recordings}
    listed: dict[str, Callable[..., Any]] = {
        "deploy": client.AppsV1Api(api).list_namespaced_deployment,
        "hpa": client.AutoscalingV2Api(api).list_namespaced_horizontal_pod_autoscaler,
        "event": client.CoreV1Api(api).list_namespaced_event,
    }
    places = {obj: (function, (_NAMESPACE,)) for obj, function in listed.items()}
    scaled = ("keda.sh", "v1alpha1", _NAMESPACE, "scaledobjects")
    places["so"] = (custom.list_namespaced_custom_object, scaled)  # type: ignore[assignment]

    def follow(obj: str, function: Callable[..., Any], where: tuple[str, ...]) -> None:
        for event in watch.Watch().stream(function, *where):
            found = event["raw_object"]
            named = found["involvedObject"] if obj == "event" else found["metadata"]
            recording = names.get(named["name"].removeprefix("keda-hpa-"))
            if recording is not None:
                recording.take(obj, event["type"], found)

    for obj, (function, where) in places.items():
        threading.Thread(target=follow, args=(obj, function, where), daemon=True).start()


def _sample(recordings: list[Recording], kubeconfig: Path, over: threading.Event) -> None:
    """Read spec.replicas of all once a second."""
    apps = client.AppsV1Api(config.new_client_from_config(str(kubeconfig)))
    while not over.wait(1.0):
        began_at = time.time()
        replicas = {
            item.metadata.name: item.spec.replicas
            for item in apps.list_namespaced_deployment(_NAMESPACE).items
        }
        times = {"t": began_at, "t_end": time.time()}
        for recording in recordings:
            if recording.name in replicas:
                line = {"kind": "sample", **times, "spec_replicas": replicas[recording.name]}
                recording.lines.append(line)
