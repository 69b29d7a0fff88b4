"""What one pod does of its nominal rate, scheduled and waited, and the processor time it takes."""

from __future__ import annotations

from collections.abc import Iterator

from lagbench.adapters.kafka.telemetry_topic import read_records
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.telemetry.records_of_programs import ConsumerProgress
from lagbench.embedded.broker import Broker
from tests.benchmarks.figures import Figure
from tests.benchmarks.stage import Stage, await_true, create_topics, open_stage, send_load

PARTITIONS = 12
BACKLOG = 1_500_000
COSTS = ((4, 1), (2, 1), (1, 1), (2, 8), (10, 64), (10, 256), (1, 64))
"""Milliseconds of a message, and messages in progress."""
WORK_SECONDS, SHORTEST_SECONDS = 10.0, 4.0
_LIMIT_SECONDS = 120.0


def measure(scale: float) -> Iterator[Figure]:
    """Yield rate and cores of one pod that always has work."""
    seconds = max(round(WORK_SECONDS * scale), SHORTEST_SECONDS)
    names = RunNames("work")
    with open_stage() as stage:
        broker = stage.start_broker()
        create_topics(broker, names, PARTITIONS)
        flags = ["--flat-out", "--count", str(BACKLOG), "--zipf-s", "0"]
        send_load(stage, broker, names, flags, within_seconds=_LIMIT_SECONDS)
        for process_ms, concurrency in COSTS:
            for work in ("scheduled", "waited"):
                flags = [f"--process-ms={process_ms}", f"--concurrency={concurrency}"]
                rate, cores = _at_work(stage, broker, names, [f"--work={work}", *flags], seconds)
                nominal = concurrency * 1000 / process_ms
                what = f"{process_ms} ms, {concurrency} at once, {work}"
                note = f"{rate / nominal:.1%} of {nominal:,.0f}; {cores:.3f} cores"
                yield Figure(what, rate, "messages/s", note=note)


def _at_work(
    stage: Stage, broker: Broker, names: RunNames, flags: list[str], seconds: float
) -> tuple[float, float]:
    """Return the rate and the cores of a pod between its first and its last report of full work."""
    pod = "pod" + "".join(flags).replace("=", "-")
    settings = ["--run-id", names.run_id, "--bootstrap-servers", broker.bootstrap_servers]
    environment = {"POD_NAME": pod, "PORT_METRICS": "0"}
    child = stage.start_program(
        pod, "lagbench.programs.consumer", [*settings, f"--group={pod}", *flags], environment
    )

    def reports() -> list[ConsumerProgress]:
        records = read_records(broker.bootstrap_servers, names.telemetry_topic)
        return [
            record
            for record in records
            if isinstance(record, ConsumerProgress)
            and record.source == pod
            and record.processed_total
            and record.queued
        ]

    def has_worked() -> list[ConsumerProgress] | None:
        found = reports()
        return found if len(found) > seconds else None

    found = await_true(has_worked, f"work of {pod}", within_seconds=_LIMIT_SECONDS, needs=[child])
    stage.end(child)
    first, last = found[0], found[-1]
    took = (last.at - first.at) / 1e9
    done = last.processed_total - first.processed_total
    return done / took, (last.cpu_seconds - first.cpu_seconds) / took
