"""Our KEDA and HPA against recorded traces of the real ones, one for each feature."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from tests.conformance.real_keda_replay import Replay
from tests.conformance.real_keda_trace import read_trace

DATA = Path(__file__).resolve().parents[1] / "data" / "real_keda"
TRACES = sorted(
    path
    for path in DATA.glob("*.jsonl.gz")
    if not path.name.endswith((".syncs.jsonl.gz", ".ext-calls.jsonl.gz"))
)


def copied(name: str, folder: Path) -> Path:
    """Copy a trace with all its files and return the trace's own."""
    for path in DATA.glob(f"{name}.*"):
        shutil.copy(path, folder)
    return folder / f"{name}.jsonl.gz"


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name.partition(".")[0])
def test_every_trace_of_the_real_stack_is_reproduced(trace: Path) -> None:
    """Each recorded decision comes out the same, and so do all but 1 % of the seconds."""
    outcome = Replay(read_trace(trace)).run()

    assert outcome.differences == []
    assert outcome.compared > 0
    assert outcome.passes


def test_there_are_sixteen_traces() -> None:
    """None was left out above."""
    assert len(TRACES) == 16


def test_a_changed_recording_is_a_difference(tmp_path: Path) -> None:
    """One proposal that is one higher is one decision that differs."""
    trace, syncs = copied("idle-off", tmp_path), tmp_path / "idle-off.syncs.jsonl.gz"
    lines = [json.loads(line) for line in gzip.decompress(syncs.read_bytes()).splitlines()]
    changed = next(line for line in lines if line["action"] == "none")
    changed["raw_proposal"] += 1
    syncs.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))

    outcome = Replay(read_trace(trace)).run()

    (difference,) = outcome.differences
    assert f"(raw {changed['raw_proposal']}), computed" in difference
    assert not outcome.passes


def test_another_lag_leads_to_other_replicas(tmp_path: Path) -> None:
    """The replay follows its inputs, not the recorded replicas: no lag, no scaling up."""
    trace = copied("idle-off", tmp_path)
    lines = [json.loads(line) for line in gzip.decompress(trace.read_bytes()).splitlines()]
    for line in lines:
        if line["kind"] == "setlag":
            line["lag"], line["lags"] = 0, [0] * len(line["lags"])
    trace.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))

    assert not Replay(read_trace(trace)).run().passes
