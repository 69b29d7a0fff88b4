"""Define the settings of a consumer pod and read them, before anything is started."""

from __future__ import annotations

import zlib
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from lagbench.core.scenario.actions import CLASSIC_SESSION_SECONDS, rebalance_protocol
from lagbench.core.scenario.message_costs import DownstreamPace, PoisonedKey
from lagbench.core.scenario.scenario import ConsumerFlags, WorkFlags
from lagbench.core.scenario.stream_start import StartDelay
from lagbench.programs.run_flags import RunFlags
from pod_program.flags import CommandLine, Flag, PodName, Settings

# The broker's default group.(min|max).session.timeout.ms.
_LEAST_SESSION_MS, _MOST_SESSION_MS = 6_000, 1_800_000


class WorkOptions(WorkFlags):
    """The costs of messages in this run, for a pod of any kind of consumer."""

    slow_downstream: Annotated[
        tuple[tuple[float, float, float], ...],
        AfterValidator(lambda rows: DownstreamPace.of_rows(rows).rows),
    ] = Field(
        (), description="when a write costs more: [[FROM, UNTIL, FACTOR], …] in stream seconds"
    )
    work_seed: int = Field(0, description="draws the cost of each message from a distribution")
    poison: PoisonedKey | None = Field(
        None, description="a key whose messages fail or hang, as JSON"
    )

    @property
    def pace(self) -> DownstreamPace:
        """The pace of the downstream over the stream."""
        return DownstreamPace.of_rows(self.slow_downstream)


class ConsumerOptions(WorkOptions, ConsumerFlags, RunFlags, Settings):
    """lagbench's consumer under test."""

    processed_topic: str = Field(description="topic of the ledger; default: the run's, by --run-id")
    telemetry_topic: str = Field(
        description="topic of the telemetry; default: the run's, by --run-id"
    )
    telemetry_servers: Annotated[str, Flag(variables=("TELEMETRY_BOOTSTRAP_SERVERS",))] = Field(
        "",
        description="host:port of Kafka for the telemetry, if the pod's own way there is disturbed",
    )
    group: str = Field(description="consumer group; default: the run's, by --run-id")
    identity: Literal["value", "headers"] = Field(
        "value", description="where a message has its identity"
    )
    commit_interval_seconds: Annotated[float, Flag("commit-interval")] = Field(
        1.0, ge=0.01, le=3600, description="seconds between two commits"
    )
    session_timeout_ms: int = Field(
        round(CLASSIC_SESSION_SECONDS * 1000),
        ge=_LEAST_SESSION_MS,
        le=_MOST_SESSION_MS,
        description="for the classic protocols; KIP-848 uses the broker's setting",
    )
    start_seconds: float = Field(
        0.0,
        ge=0,
        le=3600,
        description="mean delay from the process's start until it connects, for a real cluster's "
        "pull and node start",
    )
    start_seed: int = Field(0, description="draws the delay, with the pod's number POD_ORDINAL")
    pod_name: PodName
    pod_ordinal: Annotated[str, Flag(variables=("POD_ORDINAL",), is_variable_only=True)] = Field(
        "", description="the pod's number in its workload; only localkube has one"
    )

    @property
    def start_delay_seconds(self) -> float:
        """From the process's start until it connects."""
        ordinal = self.pod_ordinal
        number = int(ordinal) if ordinal.isdecimal() else zlib.crc32(self.pod_name.encode())
        return StartDelay(self.start_seconds, self.start_seed).of_pod(number)

    @property
    def is_incremental(self) -> bool:
        """True: a rebalance moves single partitions rather than all of them."""
        return rebalance_protocol(self.balancer) != "eager"

    @property
    def is_next_generation(self) -> bool:
        """True: the group uses KIP-848, where the broker assigns."""
        return self.balancer == "consumer"

    @property
    def is_transactional(self) -> bool:
        """True: ledger records and offsets are committed together, in a transaction."""
        return self.commit == "transactional"

    @property
    def commits_what_is_done(self) -> bool:
        """True: offsets follow the work; queued messages are left to the next owner."""
        return self.commit != "auto"

    @property
    def instance_id(self) -> str | None:
        """``group.instance.id`` of a static member: the pod's name, which a StatefulSet keeps."""
        return self.pod_name if self.static_membership else None


parse_options = CommandLine(ConsumerOptions, module="lagbench.programs.consumer").read
