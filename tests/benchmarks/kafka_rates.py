"""Rate and lateness of the real producer, and the rate of 24 real consumers with their ledger."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kafka.kafka_lag import open_admin, read_group_lag
from lagbench.core.scenario.run_names import RunNames
from lagbench.embedded.broker import Broker
from lagbench.errors import NotReady
from tests.benchmarks.figures import Figure, at_least, at_most
from tests.benchmarks.stage import Child, Sent, Stage, await_true, create_topics, open_stage
from tests.benchmarks.stage import send_load as _send_load

PARTITIONS = 24
RATES_PER_SECOND = (20_000, 60_000)
PACED_SECONDS, SHORTEST_PACED_SECONDS = 10.0, 2.0
FLAT_OUT_EVENTS, FEWEST_EVENTS = 1_000_000, 200_000
SAMPLES = 500
AIM_FLAT_OUT_PER_SECOND = 200_000
AIM_P99_MS = 20.0
AIMED_RATE_PER_SECOND = 60_000
# A paced stream that is offered late ends late; by more than this it was not that rate.
RATE_TOLERANCE = 0.98

PROCESS_MS, CONCURRENCY = 2, 8
CAPACITY_PER_SECOND = CONCURRENCY * 1000 // PROCESS_MS
"""The rate of one pod with a free processor."""
WORK_SECONDS, SHORTEST_SECONDS = 20.0, 4.0
# What the first pods process while the last ones still start (24 starts on two cores: 12 s).
START_EVENTS = 700_000
AIM_PER_SECOND = 60_000
JOIN_SECONDS = 90.0
_LIMIT_SECONDS = 180.0


def measure_producer(scale: float) -> Iterator[Figure]:
    """Yield rate and lateness at each paced rate and flat out."""
    seconds = max(PACED_SECONDS * scale, SHORTEST_PACED_SECONDS)
    count = max(round(FLAT_OUT_EVENTS * scale), FEWEST_EVENTS)
    with open_stage() as stage:
        broker = stage.start_broker()
        # The first stream after a start meets a broker whose code is not compiled yet.
        _send(stage, broker, "warm-up", ["--flat-out", "--count", str(FEWEST_EVENTS)])
        for rate in RATES_PER_SECOND:
            flags = ["--profile", "steady", "--rate", str(rate)]
            flags += ["--duration-seconds", f"{seconds:g}"]
            yield from _paced(rate, _send(stage, broker, f"paced-{rate}", flags))
        flags = ["--flat-out", "--count", str(count)]
        sent = _send(stage, broker, "flat-out", flags)
        note = f"{sent.seconds:.1f} s, idempotent, acks=all, lz4, 256 B"
        rate_seen, aim = sent.finished.acked / sent.seconds, at_least(AIM_FLAT_OUT_PER_SECOND)
        yield Figure(f"flat out, {count:,} events: acknowledged", rate_seen, "events/s", aim, note)
        sent = _send(stage, broker, "samples", [*flags, f"--payload-file={_samples(stage.folder)}"])
        note = f"{sent.seconds:.1f} s, JSON lines of about 256 B, identity in a header"
        rate_seen = sent.finished.acked / sent.seconds
        yield Figure(
            f"flat out, {count:,} samples: acknowledged", rate_seen, "events/s", None, note
        )


def _samples(folder: Path) -> Path:
    """Write JSON lines of about an event's size, of which about half is random, too."""
    random = Random(1)
    file = folder / "samples.jsonl"
    lines = [
        json.dumps({"id": number, "text": random.randbytes(56).hex() + "." * 116})
        for number in range(SAMPLES)
    ]
    file.write_text("\n".join(lines))
    return file


def _send(stage: Stage, broker: Broker, run_id: str, flags: list[str]) -> Sent:
    names = RunNames(run_id)
    create_topics(broker, names, PARTITIONS)
    return _send_load(stage, broker, names, flags, within_seconds=_LIMIT_SECONDS)


def _paced(rate: int, sent: Sent) -> Iterator[Figure]:
    what, finished = f"{rate // 1000}k/s", sent.finished
    # Over the planned time and the flush: a stream of 10 s that is on time loses 0.1 % to it.
    achieved = finished.acked / max(sent.seconds, sent.started.planned_seconds)
    note = f"{finished.acked:,} of {finished.planned:,} acknowledged; {finished.reason}"
    aim = at_least(RATE_TOLERANCE * rate)
    yield Figure(f"{what}: acknowledged", achieved, "events/s", aim, note)
    yield Figure(f"{what}: lateness p50", finished.lateness_p50_ms, "ms")
    aim_p99 = at_most(AIM_P99_MS) if rate == AIMED_RATE_PER_SECOND else None
    yield Figure(f"{what}: lateness p99", finished.lateness_p99_ms, "ms", aim_p99)
    yield Figure(f"{what}: lateness max", finished.lateness_max_ms, "ms")


def measure_consumers(scale: float) -> Iterator[Figure]:
    """Yield the rate of a balanced group while every partition has work left."""
    seconds = max(WORK_SECONDS * scale, SHORTEST_SECONDS)
    events = START_EVENTS + round(PARTITIONS * CAPACITY_PER_SECOND * seconds)
    with open_stage() as stage:
        broker = stage.start_broker()
        _send(stage, broker, "backlog", ["--flat-out", "--count", str(events), "--zipf-s", "0"])
        names, asked_at = RunNames("backlog"), time.monotonic()
        members = [_start_consumer(stage, broker, names, n) for n in range(PARTITIONS)]
        with KafkaAdmin(broker.bootstrap_servers) as admin:

            def is_balanced() -> bool:
                seen = admin.describe_group(names.group)
                return seen.is_stable and [len(m.partitions) for m in seen.members] == (
                    [1] * PARTITIONS
                )

            what = f"{PARTITIONS} balanced members"
            await_true(is_balanced, what, within_seconds=JOIN_SECONDS, needs=members)
        balanced_seconds = time.monotonic() - asked_at
        client, committed = open_admin(broker.bootstrap_servers), list[tuple[float, int]]()

        def is_used_up() -> bool:
            """Keep what is committed in all, until a partition is done."""
            offsets = read_group_lag(client, names.group, names.events_topic).values()
            if any(read.committed == read.end for read in offsets):
                return True
            done = sum(max(read.committed or 0, 0) for read in offsets)
            committed.append((time.monotonic(), done))
            return False

        what = "a drained partition"
        await_true(
            is_used_up, what, within_seconds=_LIMIT_SECONDS, every_seconds=0.5, needs=members
        )
    if len(committed) < 3:
        raise NotReady("the backlog was too small for the start of all pods: a larger --scale")
    (from_at, before), (until_at, after) = committed[0], committed[-1]
    rate = (after - before) / (until_at - from_at)
    note = f"{after - before:,} in {until_at - from_at:.1f} s; capacity"
    note += f" {PARTITIONS * CAPACITY_PER_SECOND:,}"
    name = f"{PARTITIONS} pods: processed, with ledger"
    yield Figure(name, rate, "events/s", at_least(AIM_PER_SECOND), note)
    yield Figure("start of all pods to balance", balanced_seconds, "s")


def _start_consumer(stage: Stage, broker: Broker, names: RunNames, number: int) -> Child:
    pod = f"consumer-{number:02}"
    flags = ["--run-id", names.run_id, "--bootstrap-servers", broker.bootstrap_servers]
    flags += ["--process-ms", str(PROCESS_MS), "--concurrency", str(CONCURRENCY)]
    environment = {"POD_NAME": pod, "PORT_METRICS": "0"}  # 0: any free port
    return stage.start_program(pod, "lagbench.programs.consumer", flags, environment)
