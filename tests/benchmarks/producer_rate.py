"""Measure the rate and the lateness of the producer, with its own events and with samples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

from lagbench.core.scenario.run_names import RunNames
from lagbench.embedded.broker import Broker
from tests.benchmarks.figures import Figure, at_least, at_most
from tests.benchmarks.load import Sent, send_load
from tests.benchmarks.stage import Stage, create_topics, open_stage

NAME = "producer"
PARTITIONS = 24
RATES_PER_SECOND = (20_000, 60_000)
PACED_SECONDS = 10.0
SHORTEST_SECONDS = 2.0
FLAT_OUT_EVENTS = 1_000_000
FEWEST_EVENTS = 200_000
SAMPLES = 500
AIM_FLAT_OUT_PER_SECOND = 200_000
AIM_P99_MS = 20.0
AIMED_RATE_PER_SECOND = 60_000
# A paced stream that is offered late ends late; by more than this it was not that rate.
RATE_TOLERANCE = 0.98
_LIMIT_SECONDS = 120.0


def measure(scale: float) -> Iterator[Figure]:
    """Yield rate and lateness at each paced rate and flat out."""
    seconds = max(PACED_SECONDS * scale, SHORTEST_SECONDS)
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
        yield Figure(
            f"flat out, {count:,} events: acknowledged",
            sent.acked_per_second,
            "events/s",
            at_least(AIM_FLAT_OUT_PER_SECOND),
            f"{sent.seconds:.1f} s, idempotent, acks=all, lz4, 256 B",
        )
        sent = _send(stage, broker, "samples", [*flags, f"--payload-file={_samples(stage.folder)}"])
        yield Figure(
            f"flat out, {count:,} samples, identity in a header: acknowledged",
            sent.acked_per_second,
            "events/s",
            None,
            f"{sent.seconds:.1f} s, the same with JSON lines of about 256 B",
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
    return send_load(stage, broker, names, flags, within_seconds=_LIMIT_SECONDS)


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
