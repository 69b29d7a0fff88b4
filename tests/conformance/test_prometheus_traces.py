"""The comparison of recorded prometheus triggers with those of the real KEDA."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.conformance.prometheus_traces import REAL, differences, main, states


def test_a_recording_equals_itself() -> None:
    """Each of the 22 cases is seen in three stages, and none differs from itself."""
    assert len(states(REAL)) == 66
    assert differences(REAL, REAL) == (66, [])


def test_other_replicas_are_a_difference(tmp_path: Path) -> None:
    """One case with one replica more in its last stage is named, and the exit code is 1."""
    lines = gzip.decompress(REAL.read_bytes()).decode().splitlines()
    last = next(r for r in map(json.loads, reversed(lines)) if r.get("case") == "value")
    changed = {**last, "t": 200.0, "replicas": last["replicas"] + 1}
    other = tmp_path / "other.jsonl.gz"
    other.write_bytes(gzip.compress("\n".join([*lines, json.dumps(changed)]).encode()))

    same, found = differences(REAL, other)

    assert same == 65
    assert found == ["value, stage 2: replicas 4, ours 5"]
    assert main([str(other)]) == 1
