"""A consumer on Spark without Kubernetes: its pods as process groups, as localkube runs them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import httpx
import psutil
import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.eventually import Seen, eventually

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.kafka.telemetry_topic import read_records
from lagbench.core.scenario.run_names import RunNames
from lagbench.embedded.child_server import free_port
from lagbench.embedded.spark_packages import SPARK_JOBS, spark_jars, submit_environment
from lagbench.shared_with_spark.event import EVENT_DTYPE
from localkube.ports import LOOPBACK
from localkube.processes import start_tied

PARTITIONS = 6
_WAIT_SECONDS = 600.0


class Row(NamedTuple):
    """One processing in the ledger."""

    partition: int
    offset: int
    pod: str
    member: str


@dataclass(frozen=True, slots=True)
class Pod:
    """A process group with the variables of a pod."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    ready_url: str

    def kill(self) -> None:
        """Kill the whole group, as localkube does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let none of its processes run for a moment."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.process.pid, signal.SIGCONT)

    def left(self) -> list[int]:
        """Return the pids of processes that have this pod's name in their environment."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                is_dead = process.status() == psutil.STATUS_ZOMBIE
                if not is_dead and process.environ().get("POD_NAME") == self.name:
                    found.append(process.pid)
        return found


@dataclass(slots=True)
class SparkStream:
    """The pods of one run; ``stop`` ends them all."""

    names: RunNames
    servers: str
    folder: Path
    flags: Mapping[str, str] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    secret: str = field(default_factory=token_hex)
    _ports: dict[str, int] = field(default_factory=dict)
    _written: Counter[int] = field(default_factory=Counter)
    _read: dict[int, int] = field(default_factory=dict)
    _rows: list[Row] = field(default_factory=list)

    @property
    def master_url(self) -> str:
        """The master's address."""
        return f"spark://{LOOPBACK}:{self._ports['rpc']}"

    def applications(self) -> list[dict[str, Any]]:
        """Return all applications that the master has taken."""
        page: dict[str, list[dict[str, Any]]] = httpx.get(
            f"http://{LOOPBACK}:{self._ports['page']}/json/", timeout=30
        ).json()
        return [*page["activeapps"], *page["completedapps"]]

    def start_master(self) -> None:
        """Start the master and wait for it."""
        rpc = free_port()
        self._ports = {"rpc": rpc, "page": free_port(besides={rpc})}
        pages = {"PORT_RPC": str(self._ports["rpc"]), "PORT_PAGE": str(self._ports["page"])}
        self._daemon("master", "master", pages)

    def start_worker(self) -> Pod:
        """Start a further worker and wait until it has registered."""
        number = sum("worker" in name for name in self.pods)
        name = f"{self.names.run_id}-worker-{number}"
        return self._daemon(name, "worker", {"PORT_PAGE": str(free_port())})

    def start_driver(self, name: str = "driver", *, workers: int = 2) -> Pod:
        """Start the driver and wait for its first batch, or its first idle turn."""
        checkpoint = self.folder / "checkpoint"
        command = ["enrich_stream", f"--checkpoint=file://{checkpoint}"]
        command.append(f"--floor-workers={workers}")
        jars = ",".join(map(str, spark_jars()))
        return self._pod(name, command, {"SPARK_STREAM_JARS": jars})

    def write(self, count: int) -> None:
        """Write ``count`` events, in turn to all partitions."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        event = bytearray(EVENT_DTYPE.itemsize)
        for number in range(count):
            partition = number % PARTITIONS
            event[:8] = self._written.total().to_bytes(8, "little")
            producer.produce(self.names.events_topic, bytes(event), partition=partition)
            self._written[partition] += 1
            producer.poll(0)
        assert producer.flush(180) == 0

    def write_one_batch(self, driver: Pod, count: int) -> None:
        """Write ``count`` events that ``driver`` finds all at once, in one batch."""
        with driver.paused():
            self.write(count)

    def ends(self) -> dict[int, int]:
        """Return the end offsets of what was written."""
        return dict(self._written)

    def published(self) -> dict[int, int]:
        """Return the group's offsets."""
        client = Consumer({"bootstrap.servers": self.servers, "group.id": self.names.group})
        topic = self.names.events_topic
        try:
            places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
            found = client.committed(places, timeout=120)
            return {place.partition: place.offset for place in found if place.offset >= 0}
        finally:
            client.close()

    def await_published(self) -> None:
        """Wait until the group has the end of everything that was written."""
        self.wait(lambda: self.published() == self.ends(), "all offsets are published")

    def ledger(self) -> list[Row]:
        """Return every processing in the ledger, as it was read; a look reads what is new."""
        for value in self._new_values():
            with pa.ipc.open_stream(value) as stream:
                batch, metadata = stream.read_next_batch(), stream.schema.metadata
            partition = int(metadata[b"partition"])
            pod, member = metadata[b"pod"].decode(), metadata[b"member_id"].decode()
            self._rows += [
                Row(partition, at, pod, member) for at in batch.column("offset").to_pylist()
            ]
        return self._rows[:]

    def processed(self) -> Counter[tuple[int, int]]:
        """Return how often each partition and offset stands in the ledger."""
        return Counter(row[:2] for row in self.ledger())

    def written(self) -> set[tuple[int, int]]:
        """Return partition and offset of all that was written."""
        return {(number, at) for number, end in self._written.items() for at in range(end)}

    def end_worker_in_a_batch(self, driver: Pod, count: int, number: signal.Signals) -> Pod:
        """Send a signal to a worker in the middle of a batch of ``count``; return that worker.

        Returns when a new worker has its place and all offsets are published.
        """
        before = len(self.ledger())
        self.write_one_batch(driver, count)

        def busy() -> Pod | None:
            done = Counter(row.pod for row in self.ledger()[before:])
            return next((self.pods[name] for name, rows in done.items() if rows > 500), None)

        leaver = self.wait(busy, "a worker is in the middle of the batch")
        if number == signal.SIGKILL:
            leaver.kill()
        else:
            leaver.process.send_signal(number)
            leaver.process.wait(300)
        self.wait(lambda: not leaver.left(), "no process of the worker is left")
        self.start_worker()
        self.await_published()
        return leaver

    def telemetry(self, kind: type[Any]) -> list[Any]:
        """Return the records of a kind."""
        records = read_records(self.servers, self.names.telemetry_topic, timeout_seconds=180)
        return [record for record in records if isinstance(record, kind)]

    def wait(self, look: Callable[[], Seen | None], what: str) -> Seen:
        """Return what ``look`` gives once it is true; the end of each log is in the error."""
        try:
            return eventually(look, what, within_seconds=_WAIT_SECONDS)
        except AssertionError as error:
            logs = [f"{p.name}: {p.log.read_text()[-800:]}" for p in self.pods.values()]
            raise AssertionError(f"{error}\n" + "\n".join(logs)) from error

    def stop(self) -> None:
        """Kill what still runs."""
        for pod in self.pods.values():
            pod.kill()

    def _new_values(self) -> Iterator[bytes]:
        topic = self.names.processed_topic
        client = Consumer({"bootstrap.servers": self.servers, "group.id": "ledger-reader"})
        try:
            ends = {
                number: client.get_watermark_offsets(TopicPartition(topic, number), 120)[1]
                for number in client.list_topics(topic, 120).topics[topic].partitions
            }
            left = {number for number, end in ends.items() if self._read.get(number, 0) < end}
            client.assign([TopicPartition(topic, n, self._read.get(n, 0)) for n in left])
            while left:
                message = client.poll(180)
                assert message is not None
                assert message.error() is None
                number, offset = message.partition(), message.offset()
                assert number is not None
                assert offset is not None
                self._read[number] = offset + 1
                if offset + 1 >= ends[number]:
                    left.discard(number)
                yield message.value() or b""
        finally:
            client.close()

    def _daemon(self, name: str, role: str, variables: Mapping[str, str]) -> Pod:
        return self._pod(name, ["lagbench.programs.spark_daemon", f"--role={role}"], variables)

    def _pod(self, name: str, command: list[str], variables: Mapping[str, str]) -> Pod:
        folder = self.folder / name
        folder.mkdir()
        port = free_port(besides=self._ports.values())
        known = os.environ.get("PYTHONPATH", "")
        inherited = {key: text for key, text in os.environ.items() if key != "PYSPARK_PYTHON"}
        environment = {
            **inherited,
            **submit_environment(),
            "PATH": os.defpath,  # its python3, if there is one, has not got this project
            "PYTHONPATH": f"{SPARK_JOBS}{os.pathsep}{known}",
            "KAFKA_BOOTSTRAP_SERVERS": self.servers,
            "SPARK_STREAM_MASTER_URL": self.master_url,
            "_SPARK_AUTH_SECRET": self.secret,
            "POD_NAME": name,
            "PORT_METRICS": str(port),
            **variables,
        }
        flags = [f"--{flag}={text}" for flag, text in self.flags.items()]
        if command[0] == "lagbench.programs.spark_daemon" and name == "master":
            flags = []
        log = folder / "log"
        with log.open("wb") as output:
            process = start_tied(
                [sys.executable, "-m", *command, f"--run-id={self.names.run_id}", *flags],
                log=output,
                env=environment,
                cwd=folder,
            )
        pod = Pod(name, process, log, f"http://{LOOPBACK}:{port}/ready")
        self.pods[name] = pod
        self.wait(lambda: self._is_ready(pod), f"{name} is ready")
        return pod

    def _is_ready(self, pod: Pod) -> bool:
        assert pod.process.poll() is None, pod.log.read_text()[-2000:]
        with contextlib.suppress(httpx.HTTPError, json.JSONDecodeError):
            return httpx.get(pod.ready_url, timeout=30).status_code == 200
        return False


@contextlib.contextmanager
def spark_stream(servers: str, folder: Path, run_id: str, **flags: str) -> Iterator[SparkStream]:
    """Yield a stream with a master and two workers, and its topics."""
    names = RunNames(run_id)
    with KafkaAdmin(servers) as admin:
        counts = (PARTITIONS, 3, 1)
        admin.create_topics([TopicSpec(t, n) for t, n in zip(names.topics, counts, strict=True)])
    texts = {name.replace("_", "-"): text for name, text in flags.items()}
    stream = SparkStream(names, servers, folder, texts)
    try:
        stream.start_master()
        for _ in range(2):
            stream.start_worker()
        yield stream
    finally:
        stream.stop()
