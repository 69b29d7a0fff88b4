"""Our HPA and lag rule against recorded outcomes of Kubernetes' and KEDA's own code."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import hpa, keda_kafka_lag
from tests.conformance.comparison import Comparison, read_oracle

DATA = Path(__file__).resolve().parents[1] / "data"
HPA = read_oracle(DATA / "hpa_oracle.json.gz")
KAFKA = read_oracle(DATA / "keda_kafka_lag_oracle.json.gz")


@pytest.mark.parametrize(
    ("compare", "oracle", "count"),
    [(hpa.compare, HPA, 7200), (keda_kafka_lag.compare, KAFKA, 546)],
    ids=["hpa", "kafka lag"],
)
def test_the_model_agrees_with_every_recorded_outcome(
    compare: Callable[[dict[str, Any]], Comparison], oracle: dict[str, Any], count: int
) -> None:
    """Every sync and every poll of the oracle is reproduced."""
    comparison = compare(oracle)

    assert comparison.differences == []
    assert comparison.compared == count


def test_each_compared_value_can_differ() -> None:
    """One changed value is one difference, shown with its place."""
    syncs, polls = {"scenarios": copy.deepcopy(HPA["scenarios"][:2])}, copy.deepcopy(KAFKA)
    syncs["scenarios"][1]["ticks"][3]["newReplicas"] += 1
    for number, key in enumerate(("metric", "lagWithPersistent")):
        polls["cases"][number]["polls"][0][key] += 1
    polls["cases"][2]["polls"][0]["active"] = not polls["cases"][2]["polls"][0]["active"]

    (difference,) = hpa.compare(syncs).differences
    assert "scenario 1" in difference
    assert len(keda_kafka_lag.compare(polls).differences) == 3


@pytest.mark.parametrize(
    ("module", "file", "code", "said"),
    [
        ("hpa", "hpa_oracle.json.gz", 0, "7200 of 7200 agree"),
        ("keda_kafka_lag", "hpa_oracle.json.gz", 2, "not readable"),
        ("real_keda", "real_keda/idle-off.jsonl.gz", 0, "1 of 1 traces reproduced"),
        ("real_keda", "hpa_oracle.json.gz", 2, "not readable as a trace"),
    ],
)
def test_a_command_compares_a_file_that_somebody_has(
    module: str, file: str, code: int, said: str
) -> None:
    """Its exit code is 0 without a difference, and 2 for a file of another kind."""
    command = [sys.executable, "-m", f"tests.conformance.{module}", str(DATA / file)]
    run = subprocess.run(
        command, cwd=DATA.parents[1], capture_output=True, text=True, timeout=120, check=False
    )

    assert run.returncode == code
    assert said in run.stdout + run.stderr
