"""A quick_spike-like run without any process: integer flows in 100 ms steps, one HPA, sticky group.

It exists to give tests of measures and report a run folder whose story is known and never changes.
It is no model to predict from: the HPA is a few lines, the group hands over in a fixed time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
STEP_SECONDS = 0.1
STEPS_PER_SECOND = round(1 / STEP_SECONDS)
SYNC_SECONDS = 15.0


@dataclass(frozen=True)
class SpikeStory:
    """The simulated course; seconds from the start of the stream."""

    partitions: int = 12
    base_rate: float = 600
    spike_mult: float = 10
    before_seconds: float = 20
    hold_seconds: float = 60
    after_seconds: float = 220
    process_ms: float = 2
    floor: int = 2
    ceiling: int = 12
    lag_threshold: int = 1000
    first_sync_seconds: float = 4.3
    up_pods_per_sync: int = 4
    down_pods_per_sync: int = 5
    down_window_seconds: float = 60
    ready_after_seconds: float = 1.2
    handover_seconds: float = 0.6

    @property
    def end_seconds(self) -> float:
        """The end of the stream."""
        return self.before_seconds + self.hold_seconds + self.after_seconds

    def rate(self, second: float) -> float:
        """Return the offered rate at ``second``."""
        in_spike = 0 <= second - self.before_seconds < self.hold_seconds
        return self.base_rate * (self.spike_mult if in_spike else 1)

    def proposal(self, lag: int) -> int:
        """Return what the HPA proposes at a lag, which KEDA caps at the partitions."""
        capped = min(lag, self.partitions * self.lag_threshold)
        return max(self.floor, min(self.ceiling, -(-capped // self.lag_threshold)))


@dataclass
class Pod:
    """One consumer."""

    name: str
    created: float
    joined: float
    sigterm: float | None = None
    gone: float | None = None
    owned: set[int] = field(default_factory=set)
    first_done: float | None = None
    rebalances: int = 0


@dataclass
class GroupEvent:
    """An assignment or revocation at ``second``."""

    second: float
    pod: str
    kind: str  # assigned or revoked
    partitions: list[int]
    owned: list[int]
    rebalance: int


@dataclass
class Outcome:
    """The events and samples of the course; ``epoch``: the stream's start in unix nanoseconds."""

    story: SpikeStory
    epoch: int
    seconds: list[float] = field(default_factory=list)
    offered: list[Ints] = field(default_factory=list)  # per partition
    done: list[dict[str, dict[int, int]]] = field(default_factory=list)  # pod, partition: count
    pods: list[Pod] = field(default_factory=list)
    events: list[GroupEvent] = field(default_factory=list)
    syncs: list[tuple[float, int, int, int]] = field(default_factory=list)  # lag, before, after
    wanted: list[tuple[float, int]] = field(default_factory=list)

    def at(self, second: float) -> int:
        """Return unix nanoseconds of ``second`` of the stream, exact to the microsecond."""
        return self.epoch + round(second * 1e6) * 1000

    @cached_property
    def done_by_partition(self) -> Ints:
        """Records done as [step, partition]."""
        done = np.zeros((len(self.seconds), self.story.partitions), dtype=np.int64)
        for index, step in enumerate(self.done):
            for partitions in step.values():
                for partition, count in partitions.items():
                    done[index, partition] += count
        return done

    @cached_property
    def ends(self) -> Ints:
        """End offsets as [second, partition]."""
        return self._by_second(np.stack(self.offered), trail_steps=0)

    @cached_property
    def committed(self) -> Ints:
        """The next offset to read as [second, partition]: commits trail the work by 0.5 s."""
        return self._by_second(self.done_by_partition, trail_steps=5)

    def _by_second(self, counts: Ints, *, trail_steps: int) -> Ints:
        sums = np.vstack([np.zeros_like(counts[:1]), np.cumsum(counts, axis=0)])
        steps = np.arange(int(self.story.end_seconds) + 1) * STEPS_PER_SECOND - trail_steps
        found: Ints = sums[np.maximum(steps, 0)]
        return found


def partition_shares(partitions: int) -> npt.NDArray[np.float64]:
    """Return a skew like Zipf 1.1 over 5 M keys: one partition has about twice the mean."""
    weights = np.full(partitions, 1.0)
    weights[partitions // 3] = 2.1
    weights[-1] = 1.4
    return weights / weights.sum()


LEFTOVER_SECONDS = 10.0


class Simulation:
    """Steps the story; ``run`` returns the outcome."""

    def __init__(self, story: SpikeStory, epoch: int) -> None:
        """Start with ``story.floor`` pods that hold all partitions."""
        self.story = story
        self.out = Outcome(story, epoch)
        self.backlog = np.zeros(story.partitions, dtype=np.int64)
        self.carry = np.zeros(story.partitions)
        self.shares = partition_shares(story.partitions)
        self.proposals: list[tuple[float, int]] = []
        self.handover: tuple[float, dict[str, list[int]]] | None = None
        self.wanted = story.floor
        self.next_sync = story.first_sync_seconds
        self.out.wanted.append((0.0, self.wanted))
        for _ in range(story.floor):
            self._create_pod(-8.0)
        self._rebalance(-5.0)

    def run(self) -> Outcome:
        """Return everything that happened until the end of the stream."""
        for index in range(round(self.story.end_seconds / STEP_SECONDS)):
            second = round(index * STEP_SECONDS, 3)
            self._offer(second)
            self._membership(second)
            self._work(second)
            if second >= self.next_sync:
                self._sync(second)
        return self.out

    def _offer(self, second: float) -> None:
        self.carry += self.story.rate(second) * STEP_SECONDS * self.shares
        if second == self.story.end_seconds - LEFTOVER_SECONDS:
            self.carry += self._leftover()
        whole = np.floor(self.carry + 1e-9).astype(np.int64)
        self.carry -= whole
        self.backlog += whole
        self.out.seconds.append(second)
        self.out.offered.append(whole)

    def _leftover(self) -> npt.NDArray[np.float64]:
        """Return what makes whole messages of the partitions' fractions: the stream has a total."""
        left = LEFTOVER_SECONDS - STEP_SECONDS
        rest = self.story.rate(self.story.end_seconds) * left * self.shares
        parts = (self.carry + rest) % 1.0
        missing = round(float(parts.sum()))
        largest = np.argsort(parts)[parts.size - missing :]
        extra = np.zeros(parts.size)
        extra[largest] = 1.0 - parts[largest]
        return extra

    def _live(self, second: float) -> list[Pod]:
        return [p for p in self.out.pods if p.joined <= second and p.sigterm is None]

    def _membership(self, second: float) -> None:
        if self.handover is not None:
            due, targets = self.handover
            if second >= due:
                self._assign(second, targets)
            return
        holders = {p.name for p in self._live(second) if p.rebalances}
        if holders != {p.name for p in self._live(second)} or self._orphans(second):
            self._rebalance(second)

    def _orphans(self, second: float) -> set[int]:
        held: set[int] = set().union(*(p.owned for p in self._live(second)), set())
        return set(range(self.story.partitions)) - held

    def _rebalance(self, second: float) -> None:
        """Revoke what moves; it is assigned one handover later."""
        live = [p for p in self.out.pods if p.sigterm is None and p.joined <= max(second, 0)]
        count = len(live)
        quota = [
            self.story.partitions // count + (i < self.story.partitions % count)
            for i in range(count)
        ]
        spare = sorted(set(range(self.story.partitions)) - set().union(*(p.owned for p in live)))
        targets: dict[str, list[int]] = {}
        for pod, size in zip(live, quota, strict=True):
            given_up = sorted(pod.owned)[size:]
            if given_up:
                pod.owned -= set(given_up)
                spare += given_up
                self._event(second, pod, "revoked", given_up)
        for pod, size in zip(live, quota, strict=True):
            missing = max(0, size - len(pod.owned))
            targets[pod.name], spare = spare[:missing], spare[missing:]
        self.handover = (second + self.story.handover_seconds, targets)
        if second < 0:
            self._assign(second + self.story.handover_seconds, targets)

    def _assign(self, second: float, targets: dict[str, list[int]]) -> None:
        for pod in self.out.pods:
            if pod.name in targets and pod.sigterm is None:
                pod.owned |= set(targets[pod.name])
                pod.rebalances += 1
                self._event(second, pod, "assigned", targets[pod.name])
        self.handover = None

    def _event(self, second: float, pod: Pod, kind: str, partitions: list[int]) -> None:
        event = GroupEvent(second, pod.name, kind, partitions, sorted(pod.owned), pod.rebalances)
        self.out.events.append(event)

    def _work(self, second: float) -> None:
        step: dict[str, dict[int, int]] = {}
        capacity = round(STEP_SECONDS * 1000 / self.story.process_ms)
        for pod in self.out.pods:
            left, done = capacity, {}
            queues = sorted((p for p in pod.owned if self.backlog[p] > 0), key=self._queue_length)
            for position, partition in enumerate(queues):  # fair shares, short queues first
                share = min(left // (len(queues) - position), int(self.backlog[partition]))
                if share:
                    done[partition] = share
                    self.backlog[partition] -= share
                    left -= share
            if done:
                step[pod.name] = done
                pod.first_done = second if pod.first_done is None else pod.first_done
        self.out.done.append(step)

    def _queue_length(self, partition: int) -> int:
        return int(self.backlog[partition])

    def _sync(self, second: float) -> None:
        story, lag, before = self.story, int(self.backlog.sum()), self.wanted
        self.next_sync = round(self.next_sync + SYNC_SECONDS, 3)
        proposal = story.proposal(lag)
        self.proposals.append((second, proposal))
        recent = [n for at, n in self.proposals if at > second - story.down_window_seconds]
        if proposal > before:
            self.wanted = min(proposal, before + story.up_pods_per_sync)
        elif max(recent) < before:
            self.wanted = max(*recent, before - story.down_pods_per_sync)
        self.out.syncs.append((second, lag, before, self.wanted))
        if self.wanted == before:
            return
        self.out.wanted.append((second, self.wanted))
        for _ in range(self.wanted - before):
            self._create_pod(second + 0.05)
        for pod in self._live(second)[self.wanted :]:
            pod.sigterm = round(second + 0.1, 3)
            pod.gone = round(second + 0.6, 3)
            given_up, pod.owned = sorted(pod.owned), set()
            self._event(pod.sigterm + 0.1, pod, "revoked", given_up)

    def _create_pod(self, created: float) -> None:
        number = len(self.out.pods)
        joined = created + self.story.ready_after_seconds + 0.3 + 0.02 * (number % 4)
        self.out.pods.append(Pod(f"consumer-{number:02d}", created, round(joined, 3)))
