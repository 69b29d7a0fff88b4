"""The real producer as a child, and what it says of itself in the telemetry topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lagbench.adapters.kafka.telemetry_topic import first_record
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.telemetry.records_of_programs import StreamFinished, StreamStarted
from lagbench.embedded.broker import Broker
from lagbench.errors import NotReady
from tests.benchmarks.stage import Child, Stage

PRODUCER = "lagbench.programs.producer"


@dataclass(frozen=True, slots=True)
class Sent:
    """The first and the last word of a producer."""

    started: StreamStarted
    finished: StreamFinished

    @property
    def seconds(self) -> float:
        """From planned offset 0 to the last acknowledgement."""
        return (self.finished.at - self.started.stream_started_at) / 1e9

    @property
    def acked_per_second(self) -> float:
        """Acknowledged events per second of that time."""
        return self.finished.acked / self.seconds


def start_producer(stage: Stage, broker: Broker, names: RunNames, flags: Sequence[str]) -> Child:
    """Start the producer on the run's topics."""
    servers = ["--bootstrap-servers", broker.bootstrap_servers]
    return stage.start_program(
        f"producer-{names.run_id}",
        PRODUCER,
        ["--run-id", names.run_id, *servers, *flags],
        {"POD_NAME": "producer"},
    )


def send_load(
    stage: Stage, broker: Broker, names: RunNames, flags: Sequence[str], *, within_seconds: float
) -> Sent:
    """Run the producer to its end.

    :raises NotReady: an event was not acknowledged, or the telemetry topic lacks its report.
    """
    child = start_producer(stage, broker, names, flags)
    stage.finish(child, within_seconds=within_seconds)
    return what_was_sent(broker, names)


def what_was_sent(broker: Broker, names: RunNames) -> Sent:
    """Return what the producer reported."""
    servers, topic = broker.bootstrap_servers, names.telemetry_topic
    started = first_record(servers, topic, StreamStarted)
    finished = first_record(servers, topic, StreamFinished)
    if started is None or finished is None:
        raise NotReady(f"{topic} lacks the producer's stream_started or stream_finished")
    return Sent(started, finished)
