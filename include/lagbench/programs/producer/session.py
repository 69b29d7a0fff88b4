"""One run of the producer: pace the stream, flush, report, and say how it ended."""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Iterator

import numpy as np

from lagbench.adapters.process.stop_signal import StopSignal
from lagbench.core.scenario.event_stream import BLOCK_EVENTS, EventStream
from lagbench.core.scenario.offered_load import NS
from lagbench.core.scenario.scenario import PartitionPlan
from lagbench.errors import ExitCode, NotReady
from lagbench.programs.producer.abort_watch import watch_run
from lagbench.programs.producer.load_reports import Reports
from lagbench.programs.producer.outbox import (
    MESSAGE_TIMEOUT_SECONDS,
    BlockFeed,
    MessageBodies,
    Outbox,
    ReadyBlock,
    SampleBodies,
)
from lagbench.programs.producer.producer_settings import ProducerSettings

log = logging.getLogger(__name__)
EXIT_SIGTERM = 128 + signal.SIGTERM
# What is due is sent this often; lateness is therefore about half of it when nothing disturbs.
_TICK_NS = 5_000_000
# Handed over between two looks at the clock: 3 ms at 330,000/s.
_CHUNK_EVENTS = 1024
# A stop is seen this soon while the stream waits for its start.
_LONGEST_PAUSE_SECONDS = 0.2
# Within the 30 s that Kubernetes grants by default.
STOP_FLUSH_SECONDS = 20.0
# Beyond its own timeout a message cannot wait: it has failed by then.
_FLUSH_SECONDS = MESSAGE_TIMEOUT_SECONDS + 30.0
# Partitions come within a tenth of a second of the request; an outage may delay it.
_GROWTH_SECONDS = 60.0
_GROWTH_LOOK_SECONDS = 0.005
# The generating thread must give up the interpreter sooner than the default 5 ms, a whole tick.
_SWITCH_SECONDS = 0.0005


class Pacer:
    """Sends each event when it is due (open model): only its own delay can make it late."""

    def __init__(
        self, settings: ProducerSettings, outbox: Outbox, reports: Reports, stop: StopSignal
    ) -> None:
        """Bind the parts; ``run`` starts the stream."""
        self.aborted = ""
        self._load, self._outbox, self._reports = settings.whole_load, outbox, reports
        self._settings, self._stop = settings, stop
        self._blocks: Iterator[ReadyBlock] = iter(())
        self._block: ReadyBlock | None = None
        self._position = 0
        self._growths: list[tuple[int, int]] = []
        self.started_at = 0
        self._started = 0
        self._ended_ns = 0

    def run(self, feed: BlockFeed, partitions: PartitionPlan) -> int:
        """Send the stream to its end, a stop or an abort; returns how many were planned by then."""
        self._blocks, self._growths = feed.blocks(), list(partitions.instants_ns)
        self._block = next(self._blocks)
        self._await_start()
        # One instant on both clocks: pacing must not jump when the wall clock is set.
        self._started, self.started_at = time.monotonic_ns(), time.time_ns()
        self._reports.started(self.started_at, partitions.first)
        broken_limit = watch_run(self._settings)
        ticks = 0
        while True:
            elapsed = self.elapsed_ns
            due = self._load.planned_count_at(elapsed)
            self._send_until(due)
            self._outbox.serve()
            self._reports.tick(elapsed, due)
            self._ended_ns = elapsed
            self.aborted = broken_limit()
            if self._stop.is_set() or self.aborted:
                # The tail goes on until it is told to stop: what was sent of it was its plan.
                in_tail = self.has_reached_tail
                return self._outbox.sent if in_tail else self._load.planned_count_at(elapsed)
            if self._outbox.sent >= self._load.total and elapsed >= self._load.duration_ns:
                return self._load.total
            ticks = max(ticks + 1, self.elapsed_ns // _TICK_NS)
            time.sleep(max(0.0, (ticks * _TICK_NS - self.elapsed_ns) / NS))

    @property
    def elapsed_ns(self) -> int:
        """Return the time since planned offset 0."""
        return time.monotonic_ns() - self._started

    @property
    def has_reached_tail(self) -> bool:
        """Return whether all of the planned window is with the client, and there is a tail."""
        settings = self._settings
        return settings.tail is not None and self._outbox.sent >= settings.load.total

    @property
    def tail_seconds(self) -> float:
        """Return the duration of the tail so far; 0 before it was reached."""
        after_ns = min(self._ended_ns, self._load.duration_ns) - self._settings.load.duration_ns
        return max(0, after_ns) / NS if self.has_reached_tail else 0.0

    def digest(self) -> str:
        """Return the digest of the planned events that were sent."""
        if self._block is None:
            return ""
        digest = self._block.digest.copy()
        digest.add(self._block.bodies.events[: self._position])
        return digest.hexdigest()

    def _await_start(self) -> None:
        """Wait for the planned start with everything prepared; a stop ends the wait."""
        starts_at_ns = self._settings.flags.starts_at_ns
        while not self._stop.is_set() and (left_ns := starts_at_ns - time.time_ns()) > 0:
            self._outbox.serve()
            time.sleep(min(left_ns / NS, _LONGEST_PAUSE_SECONDS))

    def _send_until(self, due: int) -> None:
        while self._outbox.sent < due and not self._stop.is_set():
            self._send_chunk(due - self._outbox.sent)
            elapsed = self.elapsed_ns
            self._reports.tick(elapsed, self._load.planned_count_at(elapsed))

    def _send_chunk(self, wanted: int) -> None:
        block = self._block
        if block is None or self._position == len(block.planned_ns):
            block, self._position = next(self._blocks), 0
            self._block = block
        first = self._position
        last = min(first + min(wanted, _CHUNK_EVENTS), len(block.planned_ns))
        if self._growths:
            last = self._until_growth(block, first, last)
        planned = block.planned_ns[first:last]
        taken = self._outbox.hand_over(
            block.bodies.values[first:last],
            block.bodies.keys[first:last],
            block.bodies.partitions[first:last],
            None if block.bodies.headers is None else block.bodies.headers[first:last],
            ((self.started_at + planned) // 1_000_000).tolist(),
        )
        self._position += taken
        # Read after the hand-over: the lateness of each event is never understated.
        self._reports.current.add(self.elapsed_ns - planned[:taken])
        if taken < last - first:
            self._outbox.await_room()

    def _until_growth(self, block: ReadyBlock, first: int, last: int) -> int:
        """Return where the events end that go by the partitions there are; wait if none does."""
        grows_at, count = self._growths[0]
        cut = first + int(np.searchsorted(block.planned_ns[first:last], grows_at))
        if cut > first:
            return cut
        limit_ns = self.elapsed_ns + int(_GROWTH_SECONDS * NS)
        while not self._outbox.has_partitions(count):
            elapsed = self.elapsed_ns
            self._reports.tick(elapsed, self._load.planned_count_at(elapsed))
            if self._stop.is_set():
                return first
            if elapsed >= limit_ns:
                raise NotReady(
                    f"the topic did not get its {count} partitions within {_GROWTH_SECONDS:g} s "
                    f"of second {grows_at / NS:g} of the stream"
                )
            time.sleep(_GROWTH_LOOK_SECONDS)
        del self._growths[0]
        return self._until_growth(block, first, last) if self._growths else last


def run_session(settings: ProducerSettings) -> int:
    """Run the producer to its end; 0 only when planned, sent and acknowledged are the same."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    stop = StopSignal.caught()
    flags = settings.flags
    outbox = Outbox(flags.bootstrap_servers, flags.topic, client_id=settings.source)
    partitions = settings.partition_plan(outbox.require_partitions(flags.partitions))
    bodies = MessageBodies(partitions)
    if settings.samples is not None:
        bodies = SampleBodies(partitions, settings.samples, run_id=flags.run_id or "")
    reports = Reports(settings, outbox)
    pacer = Pacer(settings, outbox, reports, stop)
    load, planned_total = settings.whole_load, settings.load.total
    stream = EventStream(load, settings.keys, seed=flags.seed, producer_id=flags.producer_id)
    blocks = -(-load.total // BLOCK_EVENTS)
    problem = ""
    with BlockFeed(stream, blocks=blocks, bodies=bodies, digested_events=planned_total) as feed:
        try:
            planned = pacer.run(feed, partitions)
        except NotReady as error:
            problem = str(error)
            planned = load.planned_count_at(pacer.elapsed_ns)
    sent_after = pacer.elapsed_ns / NS
    _flush(outbox, reports, pacer, planned, stop)
    acked_after = pacer.elapsed_ns / NS
    was_cut_short = stop.is_set() and not pacer.has_reached_tail
    if was_cut_short:
        problem = "stopped"
    elif pacer.aborted:
        log.warning("the stream is aborted: %s", pacer.aborted)
        problem = f"aborted: {pacer.aborted}"
    elif outbox.failed or outbox.unknown:
        problem = problem or (
            f"{outbox.failed} events failed and {outbox.unknown} are unknown: "
            f"{outbox.first_failure or 'no answer from the broker'}"
        )
    record = reports.finished(
        time.time_ns(),
        planned=planned,
        problem=problem,
        digest=pacer.digest(),
        tail_seconds=pacer.tail_seconds,
        aborted=pacer.aborted,
    )
    reports.summary(record, sent_after, acked_after)
    if was_cut_short:
        return EXIT_SIGTERM
    is_complete = record.planned == record.sent == record.acked and not pacer.aborted
    return int(ExitCode.PASS if is_complete else ExitCode.NOT_READY)


def _flush(outbox: Outbox, reports: Reports, pacer: Pacer, planned: int, stop: StopSignal) -> None:
    """Wait for the acknowledgements, reporting on the way; a stop cuts the wait to its grace."""
    limit_ns = pacer.elapsed_ns + int(_FLUSH_SECONDS * NS)
    stopping_since: int | None = None
    while not outbox.flush(0.5):
        elapsed = pacer.elapsed_ns
        reports.tick(elapsed, planned)
        if stop.is_set() and stopping_since is None:
            stopping_since = elapsed
            limit_ns = min(limit_ns, elapsed + int(STOP_FLUSH_SECONDS * NS))
        if elapsed >= limit_ns:
            log.error("%d events still wait for an acknowledgement", outbox.waiting)
            outbox.give_up()
            return
