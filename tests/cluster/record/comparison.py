"""What differs between kept and newly recorded outcomes, each by the name of its case."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SHOWN = 10
Outcomes = dict[str, dict[str, Any]]
_ANSWER = ("accepted", "code", "message", "warnings")


@dataclass(frozen=True, slots=True)
class Compared:
    """The cases of a kind, and a line for each that changed."""

    kind: str
    cases: int
    changed: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the counts and the first changes."""
        same = self.cases - len(self.changed)
        lines = [f"{self.kind}: {self.cases} cases, {same} same, {len(self.changed)} changed"]
        return "\n".join([*lines, *(f"  {line}" for line in self.changed[:SHOWN])])


def compare(kind: str, old: Outcomes, new: Outcomes) -> Compared:
    """Compare the outcomes of all cases; one that is on one side only has changed."""
    changed = []
    for name in dict.fromkeys([*old, *new]):
        before, after = old.get(name), new.get(name)
        if before is None or after is None:
            changed.append(f"{name}: only {'new' if before is None else 'kept'}")
        elif differing := _differing(before, after):
            changed.append(f"{name}: {'; '.join(differing)}")
    return Compared(kind, len({*old, *new}), changed)


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [
        f"{key} {json.dumps(old.get(key))} → {json.dumps(new.get(key))}"
        for key in dict.fromkeys([*old, *new])
        if old.get(key) != new.get(key)
    ]


def hpa_outcomes(document: Mapping[str, Any]) -> Outcomes:
    """Return the syncs of the HPA oracle."""
    return {
        f"scenario {number} at {tick['t']} ms": tick
        for number, scenario in enumerate(document["scenarios"])
        for tick in scenario["ticks"]
    }


def lag_outcomes(document: Mapping[str, Any]) -> Outcomes:
    """Return the polls of the lag oracle."""
    return {
        f"case {number} poll {place}": poll
        for number, case in enumerate(document["cases"])
        for place, poll in enumerate(case["polls"])
    }


def webhook_outcomes(document: Mapping[str, Any]) -> Outcomes:
    """Return the answers to all manifests that a rig can be asked about again, and to updates."""
    found: Outcomes = {}
    for row in document["rows"]:
        if is_repeatable(row):
            found[row["name"]] = _answer(row)
            if "update" in row:
                found[f"{row['name']} (update)"] = _answer(row["update"])
    return found


def is_repeatable(row: Mapping[str, Any]) -> bool:
    """Return whether the answer does not depend on the instant at which it was asked for."""
    return "code" in row


def _answer(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in _ANSWER}


def trace_outcomes(differences: Mapping[str, list[str]]) -> Outcomes:
    """Return the differences of a replay by the names of the traces."""
    return {name: {"differences": found[:1]} for name, found in differences.items()}
