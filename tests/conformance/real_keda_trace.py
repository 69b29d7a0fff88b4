"""Read one recorded trace of the real KEDA and HPA: its files, and what happened in them when.

Beside ``<name>.jsonl.gz`` lie ``<name>.yaml`` (what was applied), ``<name>.syncs.jsonl[.gz]``
(every HPA sync of the controller's log) and, in the newer format, ``<name>.meta.json`` (consumer
groups and their brokers). Instants are seconds since the epoch.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Line = dict[str, Any]
# A change of spec.replicas within this time of a sync or a step is that sync's or step's.
_CAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class GroupName:
    """A consumer group as the lines name it (``id``), with its real name, broker and topic."""

    id: str
    name: str
    broker: str
    topic: str


# The older traces have one group and say nothing of it.
_ONLY_GROUP = (GroupName("g", "", "b1", ""),)


@dataclass(slots=True)
class HpaLife:
    """One HPA object: from its creation to its deletion (None: to the end)."""

    created_at: float
    updated_at: list[float] = field(default_factory=list)
    deleted_at: float | None = None


@dataclass(frozen=True, slots=True)
class KedaMove:
    """A change of spec.replicas that neither an HPA sync nor a step explains."""

    at: float
    before: int
    after: int


@dataclass
class Trace:
    """Everything of one trace, lines in the order of their instants."""

    name: str
    lines: list[Line]
    syncs: list[Line]
    deployment: Line
    scaled_object: Line
    groups: tuple[GroupName, ...] = _ONLY_GROUP
    zero: float = 0.0  # the instant that the trace's own times count from

    def of_kind(self, kind: str) -> Iterator[Line]:
        """Yield the lines of a kind: setlag, step, sample, metrics_api."""
        return (line for line in self.lines if line["kind"] == kind)

    def watched(self, obj: str) -> Iterator[Line]:
        """Yield what a watch has told of hpa, deploy, so or event since the apply."""
        started = self.applied_at
        return (
            line
            for line in self.lines
            if line["kind"] == "watch" and line["obj"] == obj and line["t"] >= started
        )

    @property
    def applied_at(self) -> float:
        """When the Deployment was applied; lines before it tell of an earlier recording."""
        applied = [line["t"] for line in self.of_kind("step") if line["op"] == "apply"]
        seen = [
            line["t"] for line in self.lines if line["kind"] == "watch" and line["obj"] == "deploy"
        ]
        return float(applied[0] if applied else seen[0])

    def hpa_lives(self) -> list[HpaLife]:
        """Return the HPA objects in order."""
        lives: dict[str, HpaLife] = {}
        for line in self.watched("hpa"):
            uid = line.get("uid") or ""
            if line["type"] == "ADDED":
                lives[uid] = HpaLife(line["t"])
            elif uid in lives and line["type"] == "DELETED":
                lives[uid].deleted_at = line["t"]
            elif uid in lives and line.get("spec"):
                lives[uid].updated_at.append(line["t"])
        return list(lives.values())

    def later_specs(self) -> list[tuple[float, Line]]:
        """Return the specs that the ScaledObject was given after the one it was applied with."""
        reported = [
            (line["t"], line["spec"])
            for line in self.watched("so")
            if line.get("spec") and line["type"] != "DELETED"
        ]
        lives = self.hpa_lives()
        # What changes before there is an HPA is part of taking the object up (defaults, finalizer).
        return [(at, spec) for at, spec in reported if lives and at > lives[0].created_at]

    def annotation_changes(self) -> list[tuple[float, Line | None]]:
        """Return the ScaledObject's annotations whenever they changed."""
        changes: list[tuple[float, Line | None]] = []
        before: Line | None = self.scaled_object["metadata"].get("annotations")
        for line in self.watched("so"):
            if line["type"] == "DELETED" or (line.get("annotations") or {}) == (before or {}):
                continue
            before = line.get("annotations")
            changes.append((line["t"], before))
        return changes

    def label(self, at: float) -> str:
        """Return an instant on the trace's own clock."""
        return f"{at - self.zero:+.1f} s"

    def replica_changes(self) -> list[KedaMove]:
        """Return every change of spec.replicas that was seen."""
        changes: list[KedaMove] = []
        before: int | None = None
        for line in self.watched("deploy"):
            after = line["spec_replicas"]
            if before is not None and after is not None and after != before:
                changes.append(KedaMove(line["t"], before, after))
            before = after if after is not None else before
        return changes

    def keda_moves(self) -> list[KedaMove]:
        """Return the changes that are KEDA's own."""
        scaled = [
            (sync.get("t_done") or sync["t"], sync["to"])
            for sync in self.syncs
            if sync["action"] == "scale"
        ]
        by_hand = [line["t"] for line in self.of_kind("step") if hand_scaling(line) is not None]
        return [
            change
            for change in self.replica_changes()
            if not any(
                to == change.after and abs(at - change.at) < _CAUSE_SECONDS for at, to in scaled
            )
            and not any(0 <= change.at - at < _CAUSE_SECONDS for at in by_hand)
        ]


def hand_scaling(step: Line) -> int | None:
    """Return the replicas that a step sets on the Deployment itself; None for other steps."""
    if step["op"] != "patch" or not str(step.get("object", "")).startswith("Deployment/"):
        return None
    replicas = (step["patch"].get("spec") or {}).get("replicas")
    return None if replicas is None else int(replicas)


def read_trace(path: Path) -> Trace:
    """Return the trace in ``path``; ``ValueError`` when a file is not as expected."""
    name = path.name.removesuffix(".gz").removesuffix(".jsonl")
    lines = _read_lines(path)
    if not lines or any("kind" not in line for line in lines):
        raise ValueError("these are not the lines of a trace: a field 'kind' is missing")
    folder = path.parent
    syncs = next(
        (folder / f"{name}.syncs.jsonl{end}" for end in ("", ".gz")
         if (folder / f"{name}.syncs.jsonl{end}").exists()),
        None,
    )  # fmt: skip
    if syncs is None:
        raise ValueError(f"{name}.syncs.jsonl[.gz] is missing beside it")
    documents = list(yaml.safe_load_all((folder / f"{name}.yaml").read_text()))
    by_kind = {document["kind"]: document for document in documents if document}
    trace = Trace(
        name=name,
        lines=sorted(lines, key=_instant),
        syncs=sorted(_read_lines(syncs), key=lambda sync: sync["t"]),
        deployment=by_kind["Deployment"],
        scaled_object=by_kind["ScaledObject"],
    )
    first = next((sync for sync in trace.syncs if "t_rel" in sync), None)
    trace.zero = first["t"] - first["t_rel"] if first else trace.applied_at
    started = trace.applied_at
    trace.syncs = [_settled(trace, sync) for sync in trace.syncs if sync["t"] >= started]
    meta = folder / f"{name}.meta.json"
    if meta.exists():
        reported = json.loads(meta.read_text())
        groups = reported.get("groups") or []
        trace.zero = float(reported.get("T0") or trace.zero)
        trace.groups = tuple(
            GroupName(item["ID"], item["Name"], item["Broker"], item["Topic"]) for item in groups
        )
    return trace


def _settled(trace: Trace, sync: Line) -> Line:
    """Return a sync with the replicas that it left.

    The older log does not tell a sync that changed nothing from the disabled ones that followed
    it: such a sync has a proposal, yet leaves 0. It left what the Deployment had.
    """
    if sync["action"] != "none" or sync.get("raw_proposal") is None or sync["to"] != 0:
        return sync
    had = [line["spec_replicas"] for line in trace.watched("deploy") if line["t"] <= sync["t"]]
    return {**sync, "to": had[-1]} if had else sync


def _instant(line: Line) -> float:
    return float(line["t"] if "t" in line else line.get("t_committed") or 0.0)


def _read_lines(path: Path) -> list[Line]:
    raw = path.read_bytes()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    return [json.loads(line) for line in text.splitlines() if line.strip()]
