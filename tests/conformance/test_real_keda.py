"""Our KEDA and HPA against recorded traces of the real ones, one for each feature."""

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "real_keda"
TRACES = sorted(
    path
    for path in DATA.glob("*.jsonl.gz")
    if not path.name.endswith((".syncs.jsonl.gz", ".ext-calls.jsonl.gz"))
)


def command(*paths: Path) -> subprocess.CompletedProcess[str]:
    """Run the conformance command from the repository root."""
    return subprocess.run(
        [sys.executable, "-m", "tests.conformance.real_keda", *map(str, paths)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )


def copied(name: str, folder: Path) -> Path:
    """Copy a trace with all its files and return the trace's own."""
    for path in DATA.glob(f"{name}.*"):
        shutil.copy(path, folder)
    return folder / f"{name}.jsonl.gz"


def test_every_trace_of_the_real_stack_is_reproduced() -> None:
    """Each recorded decision comes out the same, and so do all but 1 % of the seconds."""
    run = command(*TRACES)

    assert run.stderr == ""
    assert f"{len(TRACES)} of {len(TRACES)} traces reproduced" in run.stdout
    assert run.stdout.count(" 0 differ;") == len(TRACES) == 16
    assert run.returncode == 0


def test_a_changed_recording_is_a_difference(tmp_path: Path) -> None:
    """One proposal that is one higher is one decision that differs, with exit code 1."""
    trace = copied("idle-off", tmp_path)
    syncs = tmp_path / "idle-off.syncs.jsonl.gz"
    lines = gzip.decompress(syncs.read_bytes()).decode().splitlines()
    place, sync = next(
        (number, json.loads(line))
        for number, line in enumerate(lines)
        if json.loads(line)["action"] == "none"
    )
    lines[place] = json.dumps({**sync, "raw_proposal": sync["raw_proposal"] + 1})
    syncs.write_bytes(gzip.compress("\n".join(lines).encode()))

    run = command(trace)

    assert run.returncode == 1
    assert "1 differ;" in run.stdout
    assert f"(raw {sync['raw_proposal'] + 1}), computed" in run.stdout


def test_another_lag_leads_to_other_replicas(tmp_path: Path) -> None:
    """The replay follows its inputs, not the recorded replicas: no lag, no scaling up."""
    trace = copied("idle-off", tmp_path)
    lines = [json.loads(line) for line in gzip.decompress(trace.read_bytes()).splitlines()]
    for line in lines:
        if line["kind"] == "setlag":
            line["lag"], line["lags"] = 0, [0] * len(line["lags"])
    trace.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))

    run = command(trace)

    assert run.returncode == 1
    assert "DIFFERS" in run.stdout


@pytest.mark.parametrize("content", ["", "not json", '{"cases": []}'])
def test_a_file_of_another_kind_is_wrong_input(tmp_path: Path, content: str) -> None:
    """What is no trace ends with exit code 2 and a sentence, not with a traceback."""
    trace = copied("idle-off", tmp_path)
    trace.write_text(content)

    run = command(trace)

    assert run.returncode == 2
    assert "not readable as a trace" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_trace_without_its_syncs_is_wrong_input(tmp_path: Path) -> None:
    """The HPA's syncs are needed: without them there is nothing to compare."""
    trace = copied("idle-off", tmp_path)
    (tmp_path / "idle-off.syncs.jsonl.gz").unlink()

    run = command(trace)

    assert run.returncode == 2
    assert "syncs" in run.stderr
