"""A localkube with the autoscaler on it, and a consumer group whose lag a test sets as it likes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import NotFoundError
from tests.eventually import eventually
from tests.integration.localkube_process import running_localkube

from localkube.processes import end_process, start_tied

NAMESPACE = "scaled"
API = {
    "Namespace": "v1",
    "Event": "v1",
    "Pod": "v1",
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "ScaledObject": "keda.sh/v1alpha1",
    "TriggerAuthentication": "keda.sh/v1alpha1",
    "ClusterTriggerAuthentication": "keda.sh/v1alpha1",
    "Secret": "v1",
    "Service": "v1",
}
IDLE = "import signal; signal.pause()"
BUSY = "while True: pass"


@dataclass
class Setting:
    """The parts that a test works with."""

    client: DynamicClient
    autoscaler: Popen[bytes]
    log: Path
    made: list[tuple[str, str]] = field(default_factory=list)

    def create(self, kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
        """Create an object and return it as stored."""
        return self.put(kind, name, {"spec": spec}, **metadata)

    def put(self, kind: str, name: str, rest: dict[str, Any], **metadata: Any) -> dict[str, Any]:
        """Create an object of any shape and return it as stored."""
        body = {
            "apiVersion": API[kind],
            "kind": kind,
            "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
            **rest,
        }
        self.made.append((kind, name))
        stored = self._resource(kind).create(body=body, namespace=NAMESPACE)
        return dict(stored.to_dict())

    def secret(self, name: str, parameters: dict[str, str]) -> None:
        """Create a Secret and a TriggerAuthentication of the same name that takes all of it."""
        self.put("Secret", name, {"stringData": parameters})
        references = [{"parameter": key, "name": name, "key": key} for key in parameters]
        self.create("TriggerAuthentication", name, {"secretTargetRef": references})

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return an object, None when it is not there."""
        try:
            return dict(self._resource(kind).get(name=name, namespace=NAMESPACE).to_dict())
        except NotFoundError:
            return None

    def patch(self, kind: str, name: str, change: dict[str, Any]) -> None:
        """Merge a change into an object."""
        self._resource(kind).patch(
            body=change, name=name, namespace=NAMESPACE, content_type="application/merge-patch+json"
        )

    def delete(self, kind: str, name: str) -> None:
        """Delete an object if it is there."""
        try:
            self._resource(kind).delete(name=name, namespace=NAMESPACE)
        except NotFoundError:
            return

    def events(self, name: str) -> list[tuple[str, str, str]]:
        """Return type, reason and message of the events about an object."""
        found = self._resource("Event").get(namespace=NAMESPACE).to_dict()["items"]
        return [
            (event["type"], event["reason"], event["message"])
            for event in found
            if event["involvedObject"]["name"] == name
        ]

    def replicas(self, name: str, kind: str = "Deployment") -> int:
        """Return how many replicas a workload asks for."""
        workload = self.get(kind, name)
        assert workload is not None
        return int(workload["spec"]["replicas"])

    def pods(self, app: str) -> list[str]:
        """Return the names of an app's pods that are not being deleted."""
        found = self._resource("Pod").get(namespace=NAMESPACE, label_selector=f"app={app}")
        items = found.to_dict()["items"]
        left = [item["metadata"] for item in items if "deletionTimestamp" not in item["metadata"]]
        return sorted(metadata["name"] for metadata in left)

    def condition(self, kind: str, name: str, wanted: str) -> str:
        """Return a condition as ``status:reason``; empty when there is none."""
        found = self.get(kind, name) or {}
        for item in (found.get("status") or {}).get("conditions") or []:
            if item["type"] == wanted:
                return f"{item['status']}:{item.get('reason', '')}"
        return ""

    def deployment(
        self,
        name: str,
        *,
        replicas: int,
        code: str = IDLE,
        cpu: str = "100m",
        kind: str = "Deployment",
    ) -> None:
        """Create a Deployment, or another workload, whose pods run a line of Python."""
        container = {
            "name": "main",
            "image": "lagbench",
            "command": [sys.executable, "-c", code],
            "resources": {"requests": {"cpu": cpu}},
        }
        template = {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
        }
        selector = {"matchLabels": {"app": name}}
        spec: dict[str, Any] = {"replicas": replicas, "selector": selector, "template": template}
        if kind == "StatefulSet":
            spec["podManagementPolicy"] = "Parallel"
        self.create(kind, name, spec)

    def clean(self) -> None:
        """Delete what the test made, scalers before their targets."""
        for kind, name in reversed(self.made):
            self.delete(kind, name)
        self.made.clear()

    def _resource(self, kind: str) -> Any:
        return self.client.resources.get(api_version=API[kind], kind=kind)


@contextmanager
def running_setting(folder: Path, *flags: str) -> Iterator[Setting]:
    """Run localkube and the autoscaler for the time of the block."""
    with running_localkube(folder / "kube") as kube:
        client = kube.client()
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        client.resources.get(api_version="v1", kind="Namespace").create(body=namespace)
        log_path = folder / "autoscaler.log"
        command = [sys.executable, "-m", "lagbench.programs.autoscaler"]
        with log_path.open("ab") as log:
            process = start_tied([*command, "--kubeconfig", str(kube.kubeconfig), *flags], log=log)
        try:
            yield Setting(client, process, log_path)
        finally:
            end_process(process.pid, grace_seconds=5)
            process.wait(timeout=60)


def make_topic(bootstrap_servers: str, topic: str, partitions: int = 1) -> None:
    """Create a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)


@dataclass(frozen=True)
class LagControl:
    """A topic with records and a group whose commits are moved by hand."""

    bootstrap_servers: str
    topic: str
    group: str
    partitions: int
    records_per_partition: int = 100

    def prepare(self) -> None:
        """Create and fill the topic, and commit its end: no lag."""
        make_topic(self.bootstrap_servers, self.topic, self.partitions)
        producer = Producer({"bootstrap.servers": self.bootstrap_servers})
        for number in range(self.partitions * self.records_per_partition):
            producer.produce(self.topic, b"x", partition=number % self.partitions)
        assert producer.flush(120) == 0
        self.set_lag(0)

    def set_lag(self, total: int) -> None:
        """Commit so that ``total`` records are left, spread evenly."""
        share, rest = divmod(total, self.partitions)
        offsets = [
            TopicPartition(self.topic, number, self.records_per_partition - share - (number < rest))
            for number in range(self.partitions)
        ]
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        wanted = [ConsumerGroupTopicPartitions(self.group, offsets)]

        def is_committed() -> bool:
            # A new broker's first answers carry errors, or do not come: its coordinator loads.
            asked = admin.alter_consumer_group_offsets(wanted, request_timeout=15)
            try:
                answers = asked[self.group].result(20).topic_partitions
            except (KafkaException, TimeoutError):
                return False
            return all(item.error is None for item in answers)

        eventually(is_committed, f"commits of group {self.group}")

    def trigger(self, threshold: int = 10) -> dict[str, Any]:
        """Return the kafka trigger that looks at this group."""
        metadata = {
            "bootstrapServers": self.bootstrap_servers,
            "consumerGroup": self.group,
            "topic": self.topic,
            "lagThreshold": str(threshold),
        }
        return {"type": "kafka", "metadata": metadata}
