"""What a trace's autoscaler could see at an instant: offsets, brokers, topics, external values.

A change takes hold somewhere between two instants (a commit was sent, a commit was confirmed). A
read that falls in between may have seen either side.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.real_keda_trace import Line, Trace

# The older traces give the total lag only; their README says that the topic had 20 partitions.
_PARTITIONS_OF_TOTALS = 20
# Offsets of a topic whose log is nowhere read from its start: any number beyond every lag will do.
_SOME_END = 1_000_000
_LISTENER_CLOSES_SECONDS = 0.3


@dataclass
class Group:
    """A consumer group on its topic: log ends, and what it has committed (None: nothing)."""

    broker: str
    ends: list[int] = field(default_factory=list)
    committed: list[int | None] = field(default_factory=list)

    def resize(self, partitions: int) -> None:
        """Have a number of partitions, as a commit shows it."""
        missing = partitions - len(self.ends)
        self.ends = [*self.ends[:partitions], *[_SOME_END] * missing]
        self.committed = [*self.committed[:partitions], *[None] * missing]


@dataclass
class Inputs:
    """The world at one instant."""

    groups: dict[str, Group] = field(default_factory=dict)
    topic_groups: dict[str, list[str]] = field(default_factory=dict)
    brokers_down: set[str] = field(default_factory=set)
    topics_gone: set[str] = field(default_factory=set)
    external_value: float = 0.0
    external_active: bool = False
    is_external_down: bool = False


@dataclass(frozen=True)
class Change:
    """Something that took hold between two instants."""

    begin: float
    end: float
    note: str
    apply: Callable[[Inputs], None]


class World:
    """Replays the changes; ``now`` is what scalers read."""

    def __init__(self, trace: Trace) -> None:
        """Start before the first change."""
        self.now = Inputs()
        self.at = 0.0
        ends = _first_ends(trace)
        for place, group in enumerate(trace.groups):
            # Of the second group's topic no log end is told, and its lag needs none.
            own = list(ends) if place == 0 else [_SOME_END] * _partitions_of_second(trace, ends)
            self.now.groups[group.id] = Group(group.broker, own, [None] * len(own))
            self.now.topic_groups.setdefault(group.topic, []).append(group.id)
        self.changes = sorted(_changes(trace), key=lambda change: change.end)
        self._next = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> World:
        """Stay one: scalers that are copied to try an alternative read the same world."""
        return self

    def pushes(self) -> list[float]:
        """Return when an external server had news of being active for its push stream."""
        return [
            change.end
            for change in self.changes
            if change.note.startswith("external value") and _says_active(change)
        ]

    def advance(self, at: float) -> None:
        """Let everything happen that was over at ``at``."""
        self.at = at
        while self._next < len(self.changes) and self.changes[self._next].end <= at:
            self.changes[self._next].apply(self.now)
            self._next += 1

    def alternatives(self, begin: float, end: float) -> list[tuple[str, Inputs]]:
        """Return what a read between two instants may have seen beside ``now``, with the causes."""
        seen: list[tuple[str, Inputs]] = []
        inputs = self.now
        for change in self.changes[self._next :]:
            if change.begin < end and change.end > begin:
                inputs = copy.deepcopy(inputs)
                change.apply(inputs)
                seen.append((change.note, inputs))
        return seen


def _says_active(change: Change) -> bool:
    inputs = Inputs()
    change.apply(inputs)
    return inputs.external_active


def _first_ends(trace: Trace) -> list[int]:
    """Return the log ends of the first group's topic, where a sample tells them.

    Known only of partitions with a commit; the others are as long: a topic was filled evenly.
    """
    partitions = 0
    for line in trace.of_kind("sample"):
        committed, lags = line.get("committed") or [], line.get("lags") or []
        partitions = max(partitions, len(committed))
        known = [c + lag for c, lag in zip(committed, lags, strict=False) if lag is not None]
        if known and len(committed) > 1:
            return [
                c + lag if lag is not None else known[0]
                for c, lag in zip(committed, lags, strict=False)
            ]
    return [_SOME_END] * (partitions or _PARTITIONS_OF_TOTALS)


def _partitions_of_second(trace: Trace, first: list[int]) -> int:
    reported = (len(line["lags_b"]) for line in trace.of_kind("sample") if line.get("lags_b"))
    return max(reported, default=len(first))


def _changes(trace: Trace) -> Iterator[Change]:
    for line in trace.of_kind("setlag"):
        is_complete = line.get("lag") is not None and "t_committed" in line
        if is_complete and "t_before_commit" in line:
            yield _commit(line)
    for line in trace.of_kind("step"):
        change = _step(line)
        if change is not None:
            yield change


def _commit(line: Line) -> Change:
    lags = line.get("lags")
    if lags is None:
        share, rest = divmod(line["lag"], _PARTITIONS_OF_TOTALS)
        lags = [share + (place < rest) for place in range(_PARTITIONS_OF_TOTALS)]

    def apply(inputs: Inputs) -> None:
        group = inputs.groups[line.get("group") or "g"]
        group.resize(len(lags))
        for partition, lag in enumerate(lags):
            # -1: this partition was left out of the commit. A lag below zero is written elsewhere.
            if lag is not None and not _is_left_out(line, lag):
                group.committed[partition] = group.ends[partition] - lag

    note = f"commit of lag {line['lag']} in flight"
    return Change(line["t_before_commit"], line["t_committed"], note, apply)


def _is_left_out(line: Line, lag: int) -> bool:
    """Return whether -1 means "not committed": then the total does not contain it."""
    known = [item for item in line["lags"] if item is not None] if line.get("lags") else []
    return lag == -1 and sum(known) != line["lag"]


def _step(line: Line) -> Change | None:
    begin, end, note = line["t"], line.get("t_end") or line["t"], str(line.get("note") or "")
    if reported := re.search(r"SIGTERM at ([0-9.]+)", str(line.get("output", ""))):
        # A broker that ends closes its listener at once: in every trace that stops one, the sample
        # 0.3 s after the signal is refused.
        end = min(end, float(reported[1]) + _LISTENER_CLOSES_SECONDS)
    apply = _effect(line, note)
    return None if apply is None else Change(begin, end, note, apply)


def _effect(line: Line, note: str) -> Callable[[Inputs], None] | None:
    if line["op"] == "advance":
        return lambda inputs: _advance(inputs.groups[line["group"]], line["parts"], line["n"])
    if line["op"] == "delgroup":
        return lambda inputs: _forget(inputs.groups[line["group"]])
    if line["op"] == "file" and note.startswith("external"):
        value, _, active = str(line["content"]).partition(" ")
        return lambda inputs: _set_external(inputs, float(value), active)
    return _outage(line, note) if line["op"] == "exec" else None


def _outage(line: Line, note: str) -> Callable[[Inputs], None] | None:
    """Return what switching a source off or on does."""
    if broker := re.match(r"broker (\d+) (stop|start)", note):
        is_stop = broker[2] == "stop"
        return lambda inputs: _switch(inputs.brokers_down, f"b{broker[1]}", is_in=is_stop)
    if topic := re.match(r"topic (\S+) deleted", note):
        return lambda inputs: _switch(inputs.topics_gone, topic[1], is_in=True)
    if topic := re.match(r"topic (\S+) created again", note):
        sent = re.search(r"sent (\d+)", str(line.get("output", "")))
        return lambda inputs: _recreate(inputs, topic[1], int(sent[1]) if sent else 0)
    if note.startswith("external server"):
        return lambda inputs: setattr(inputs, "is_external_down", note.endswith("stopped"))
    return None


def _switch(names: set[str], name: str, *, is_in: bool) -> None:
    if is_in:
        names.add(name)
    else:
        names.discard(name)


def _advance(group: Group, partitions: list[int], records: int) -> None:
    for partition in partitions:
        group.ends[partition] += records
        committed = group.committed[partition]
        group.committed[partition] = None if committed is None else committed + records


def _forget(group: Group) -> None:
    group.committed = [None] * len(group.committed)


def _set_external(inputs: Inputs, value: float, active: str) -> None:
    inputs.external_value = value
    inputs.external_active = active.strip() == "true" if active else value > 0


def _recreate(inputs: Inputs, topic: str, records: int) -> None:
    """Bring a topic back: a log of ``records`` from offset 0, and no commit of any group."""
    inputs.topics_gone.discard(topic)
    for group_id in inputs.topic_groups.get(topic, ()):
        group = inputs.groups[group_id]
        count = len(group.ends)
        group.ends = [records // count + (place < records % count) for place in range(count)]
        _forget(group)
