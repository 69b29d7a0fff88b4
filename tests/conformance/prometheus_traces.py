"""``python -m tests.conformance.prometheus_traces OURS.jsonl.gz``: compare with the real KEDA.

OURS is a recording of the embedded bench by ``python -m tests.cluster.record_prometheus``; the real
one is tests/data/real_keda_prometheus.jsonl.gz. Compared is how each case stands at the end of each
stage: conditions, health, the HPA's targets and values, desired and present replicas. Written in
two ways but equal are quantities (3.500 and 3500m), and an entry of the HPA's status without a
value, which the bench leaves out.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lagbench.core.kubernetes_values import parse_milli

REAL = Path(__file__).parents[1] / "data" / "real_keda_prometheus.jsonl.gz"
STAGE_ENDS_SECONDS = (58.0, 148.0, float("inf"))
DIFFERENT: Mapping[str, str] = {
    "cached": "goes back and forth about every 15 s in both: the end of a stage meets one of two",
    "number": "the real scaler panics at a value that is no text, the bench counts a failure",
}
State = dict[str, Any]


def states(file: Path) -> dict[tuple[str, int], State]:
    """Return what was seen last in each stage of each case; a stage without a change keeps it."""
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    seen: dict[tuple[str, int], State] = {}
    for record in map(json.loads, lines):
        if record["kind"] == "seen":
            first = next(n for n, end in enumerate(STAGE_ENDS_SECONDS) if record["t"] < end)
            for stage in range(first, len(STAGE_ENDS_SECONDS)):
                seen[record["case"], stage] = _state(record)
    return seen


def differences(real: Path, ours: Path) -> tuple[int, list[str]]:
    """Return how many ends of stages are equal, and a line for each field that is not."""
    theirs, found = states(real), states(ours)
    lines, same = [], 0
    for (case, stage), expected in sorted(theirs.items()):
        got = found.get((case, stage), {})
        unequal = [name for name, value in expected.items() if got.get(name) != value]
        same += not unequal
        lines += [
            f"{case}, stage {stage}: {name} {expected[name]}, ours {got.get(name)}"
            for name in unequal
        ]
    return same, lines


def _state(record: Mapping[str, Any]) -> State:
    conditions = {c["type"]: (c["status"], c.get("reason")) for c in record["conditions"] or ()}
    health = {
        name: (of["status"], of["numberOfFailures"] > 0)
        for name, of in (record["health"] or {}).items()
    }
    return {
        "conditions": conditions,
        "health": health,
        "targets": [_quantities(metric, "target") for metric in record["metrics"] or ()],
        "values": [
            _quantities(metric, "current")
            for metric in record["current"] or ()
            if metric.get("external")
        ],
        "desired": record["desired"] or None,
        "replicas": record["replicas"],
    }


def _quantities(metric: Mapping[str, Any], part: str) -> dict[str, Any]:
    found = (metric.get("external") or {}).get(part) or {}
    return {
        key: text if key == "type" else parse_milli(text, where=part, field=key)
        for key, text in found.items()
    }


def main(arguments: list[str]) -> int:
    """Print the comparison; 1: a case differs that is not known to."""
    same, lines = differences(REAL, Path(arguments[0]))
    sys.stdout.write(f"{same} of {len(states(REAL))} ends of stages are equal\n")
    for line in lines:
        sys.stdout.write(f"  {line}\n")
    for case, reason in DIFFERENT.items():
        sys.stdout.write(f"known: {case} {reason}\n")
    return 1 if any(line.split(",")[0] not in DIFFERENT for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
