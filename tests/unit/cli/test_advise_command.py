"""``lagbench advise``: the answer, its exit code and its files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.cli.conftest import Command

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.cli import advise_command
from lagbench.core.advice.job import evaluate_job
from lagbench.core.advice.race import Evaluate
from lagbench.errors import ExitCode

TINY = ("--candidates", "8", "--seeds", "1")
P99 = ("--slo", "time_lag_p99_seconds=60")


@pytest.fixture(autouse=True)
def no_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate in this process."""

    @contextmanager
    def evaluator(*_: Any) -> Iterator[Evaluate]:
        yield lambda jobs: map(evaluate_job, jobs)

    monkeypatch.setattr(advise_command, "evaluator", evaluator)


def test_the_advice_is_a_policy_that_passes_the_check(lagbench: Command) -> None:
    """The JSON names its folder; the policy keeps the names of the present one."""
    answer = lagbench("advise", "hello", *P99, *TINY, "--json")
    found = json.loads(answer.out)

    assert (answer.code, found["outcome"], found["exit_code"]) == (ExitCode.PASS, "advice", 0)
    folder = lagbench.runs / "_advice"
    assert found["folder"].startswith(str(folder.absolute()))
    policy = f"{found['folder']}/scaled-object.yaml"
    with open(policy, encoding="utf-8") as file:  # noqa: PTH123 - a path as text
        assert yaml.safe_load(file)["metadata"]["name"] == "consumer"
    assert lagbench("policy", "check", policy, "--scenario", "hello").code == ExitCode.PASS
    assert lagbench("show").code == ExitCode.PASS  # the folder is no run


def test_the_same_question_in_the_same_folder_is_not_searched_again(
    lagbench: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So a proof begins, and goes on, at once; another question is searched."""
    given = ("advise", "hello", *TINY, "--folder", str(tmp_path / "advice"))
    first = lagbench(*given, *P99, "--json").out

    def none(*_: Any) -> Iterator[Evaluate]:
        raise AssertionError("a search")

    monkeypatch.setattr(advise_command, "evaluator", none)

    assert lagbench(*given, *P99, "--json").out == first
    assert lagbench(*given, "--slo", "time_lag_p99_seconds=61").code != ExitCode.PASS


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("quick_spike", "--slo", "time_lag_p99_seconds=1"), ExitCode.SLO_FAILED, "partition 8"),
        (("steady", "--slo", "drain_seconds=30"), ExitCode.UNDETERMINED, "steady: no spike"),
        (("hello", *P99, "--min", "5", "--max", "3"), ExitCode.WRONG_INPUT, "--min"),
        (("hello", "--slo", "drain_seconds.level=warn"), ExitCode.WRONG_INPUT, "--slo"),
        (P99, ExitCode.WRONG_INPUT, "--observation"),
        (("hello", "--observation", "x", *P99), ExitCode.WRONG_INPUT, "--observation"),
        (
            ("hello", *P99, "--rival", "lag-quick", "--rival", "lag-quick"),
            ExitCode.WRONG_INPUT,
            "--rival",
        ),
        (("hello", *P99, "--policy", "lag-standard"), ExitCode.WRONG_INPUT, "maxReplicaCount"),
    ],
)
def test_what_has_no_advice_says_why(
    lagbench: Command, arguments: tuple[str, ...], code: ExitCode, word: str
) -> None:
    """Without a search, and wrong input leaves no folder."""
    answer = lagbench("advise", *arguments)

    assert answer.code == code, answer.text
    assert word in answer.text
    assert "simulated" not in answer.err
    assert (lagbench.runs / "_advice").exists() is (code != ExitCode.WRONG_INPUT)


@pytest.mark.parametrize(
    ("seconds", "pod_rate", "gap", "words"),
    [
        (100, 50.0, 1.0, ["100 s were observed"]),
        (600, None, 1.0, ["--pod-rate"]),
        (600, 50.0, 40.0, ["not read for 40 s"]),
        (600, 50.0, 1.0, []),
    ],
)
def test_an_observation_is_advised_on_if_it_is_enough(
    lagbench: Command, seconds: int, pod_rate: float | None, gap: float, words: list[str]
) -> None:
    """Long enough for a scale-down, without a gap, with the rate of a pod; its policy is unknown.

    The advice is for the Kubernetes of its cluster.
    """
    folder = RunFolder.create("observed", lagbench.runs)
    seen: dict[str, Any] = {"group": "g", "topic": "t", "pod_rate_per_second": pod_rate}
    seen["longest_gap_seconds"] = gap
    cluster = {"fidelity": "kubernetes", "cluster": {"kubernetes": "v1.34.4"}}
    folder.write_json(folder.manifest, {"observed": seen, **cluster})
    half = seconds / 2
    folder.write_text(
        "observed_load.csv", f"second,rate\n0,20\n{half:g},200\n{half + 30:g},20\n{seconds},0\n"
    )
    trace = {"kind": "trace", "file": "observed_load.csv"}
    scenario: dict[str, Any] = {"name": "replay", "description": "observed"}
    scenario |= {"partitions": 4, "profile": trace, "policy": "lag-default"}
    scenario |= {"consumer": {"process_ms": 20}, "allow_overscale": True}
    folder.write_text("replay.yaml", yaml.safe_dump(scenario))
    answer = lagbench("advise", "--observation", "observed", *P99, *TINY, "--json")

    assert answer.code == (ExitCode.UNDETERMINED if words else ExitCode.PASS), answer.err
    found = json.loads(answer.out)
    assert len(found["reasons"]) >= len(words)
    assert all(word in " ".join(found["reasons"]) for word in words)
    assert found["present"] is None
    assert found["kubernetes"] == "1.34"
