"""Real consumers as children, in one group."""

from __future__ import annotations

from dataclasses import dataclass, field

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.core.scenario.run_names import RunNames
from lagbench.embedded.broker import Broker
from tests.benchmarks.stage import Child, Stage

CONSUMER = "lagbench.programs.consumer"
PROCESS_MS = 2
CONCURRENCY = 8
CAPACITY_PER_SECOND = CONCURRENCY * 1000 // PROCESS_MS
"""The rate of one pod with a free processor."""
JOIN_SECONDS = 90.0


@dataclass(slots=True)
class Group:
    """The consumers of one run."""

    stage: Stage
    broker: Broker
    names: RunNames
    balancer: str
    partitions: int
    members: list[Child] = field(default_factory=list)
    started: int = 0

    def add(self, count: int = 1) -> None:
        """Start members; they join on their own."""
        for _ in range(count):
            pod = f"consumer-{self.started:02}"
            self.started += 1
            flags = ["--run-id", self.names.run_id, "--balancer", self.balancer]
            flags += ["--process-ms", str(PROCESS_MS), "--concurrency", str(CONCURRENCY)]
            flags += ["--bootstrap-servers", self.broker.bootstrap_servers]
            environment = {"POD_NAME": pod, "PORT_METRICS": "0"}  # 0: any free port
            name = f"{self.names.run_id}-{pod}"
            self.members.append(self.stage.start_program(name, CONSUMER, flags, environment))

    def remove_newest(self) -> None:
        """End the member that was added last, and wait for it."""
        self.stage.end(self.members.pop())

    def end(self) -> None:
        """End all members: first ask all, then wait, so that the last does not inherit all."""
        for member in self.members:
            self.stage.ask_to_end(member)
        while self.members:
            self.remove_newest()

    def await_balance(self) -> None:
        """Wait until every member holds its even share of the partitions."""
        fewest = self.partitions // len(self.members)
        with KafkaAdmin(self.broker.bootstrap_servers) as admin:

            def is_balanced() -> bool:
                seen = admin.describe_group(self.names.group)
                held = [len(member.partitions) for member in seen.members]
                is_shared = len(held) == len(self.members) and min(held) >= fewest
                return seen.is_stable and is_shared and sum(held) == self.partitions

            self.stage.await_true(
                is_balanced, f"{len(self.members)} balanced members", within_seconds=JOIN_SECONDS
            )
