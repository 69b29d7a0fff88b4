"""The conformance commands on the recorded oracles: no difference, and they can find one."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
HPA, KAFKA = DATA / "hpa_oracle.json.gz", DATA / "keda_kafka_lag_oracle.json.gz"


def command(module: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run a conformance command from the repository root."""
    return subprocess.run(
        [sys.executable, "-m", f"tests.conformance.{module}", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("module", "path", "count"), [("hpa", HPA, 7200), ("keda_kafka_lag", KAFKA, 546)]
)
def test_the_model_agrees_with_every_recorded_outcome(module: str, path: Path, count: int) -> None:
    """Every sync and every poll of the oracle is reproduced, and the command says how many."""
    run = command(module, path)

    assert run.stdout == f"{count} of {count} agree\n"
    assert run.returncode == 0


def test_a_single_wrong_outcome_is_reported_with_exit_code_1(tmp_path: Path) -> None:
    """One changed value is one difference, shown with its place; plain JSON is read as well."""
    oracle = json.loads(gzip.decompress(HPA.read_bytes()))
    oracle["scenarios"] = oracle["scenarios"][:2]
    oracle["scenarios"][1]["ticks"][3]["newReplicas"] += 1
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(oracle))

    run = command("hpa", changed)

    assert run.returncode == 1
    assert "119 of 120 agree" in run.stdout
    assert "scenario 1" in run.stdout


def test_a_changed_lag_outcome_is_reported(tmp_path: Path) -> None:
    """The lag command compares the metric, the persistent total and the activity."""
    oracle = json.loads(gzip.decompress(KAFKA.read_bytes()))
    for number, key in enumerate(("metric", "lagWithPersistent")):
        oracle["cases"][number]["polls"][0][key] += 1
    oracle["cases"][2]["polls"][0]["active"] = not oracle["cases"][2]["polls"][0]["active"]
    changed = tmp_path / "changed.json.gz"
    changed.write_bytes(gzip.compress(json.dumps(oracle).encode()))

    run = command("keda_kafka_lag", changed)

    assert run.returncode == 1
    assert "543 of 546 agree" in run.stdout


def test_a_file_of_another_kind_is_wrong_input(tmp_path: Path) -> None:
    """A file without the expected content ends with exit code 2, not with a traceback."""
    other = tmp_path / "other.json"
    other.write_text('{"cases": []}')

    run = command("hpa", other)

    assert run.returncode == 2
    assert "not readable" in run.stderr
