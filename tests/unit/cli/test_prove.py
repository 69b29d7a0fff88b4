"""``lagbench advise --prove``: each scenario is an experiment, and goes on where it was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fakes.advices import advice, measure

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.cli import prove
from lagbench.cli.asked_experiment import AskedExperiment
from lagbench.cli.terminal import Terminal
from lagbench.errors import NotReady, WrongInput
from lagbench.results.executions import read_progress, start_execution


def test_a_proof_goes_on_behind_its_last_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bench fails at the third run; the same advice then has all four."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    made: list[str] = []

    def execute(asked: AskedExperiment) -> None:
        assert asked.path is not None
        found, folder = asked.found, ExperimentFolder(asked.path)
        if not folder.is_started:
            start_execution(found, target="embedded", started_by="command", now=1, at=folder)
        for run in read_progress(folder).missing:
            made.append(run.key)
            if len(made) == 3:
                raise NotReady("the bench ended")
            measure(folder, run, 16.0, "pass")

    def proved() -> Any:
        return prove.prove(
            Terminal(),
            advice(),
            {"quick_spike": "quick_spike"},
            overrides={},
            pairs=2,
            target="embedded",
            target_settings=None,
        )

    monkeypatch.setattr(AskedExperiment, "execute", execute)
    with pytest.raises(NotReady):
        proved()
    proof = proved().proof

    assert [(one.role, one.verdict, len(one.runs)) for one in proof] == [
        ("present", "pass", 2),
        ("pick", "pass", 2),
    ]
    assert len(made) == 5


def test_what_no_rehearsal_could_use_is_refused_before_the_search() -> None:
    """The search takes minutes."""

    def require(pairs: int, target: str, rate_scale: str) -> None:
        place: dict[str, Any] = {"target": target, "target_settings": None}
        overrides = {"rate_scale": rate_scale}
        prove.require_provable(pairs, ["quick_spike"], "lag-quick", overrides, **place)

    require(2, "embedded", "0.1")
    for pairs, target, rate_scale, field in (
        (3, "embedded", "0.1", "--pairs"),
        (2, "elsewhere", "0.1", "--target"),
        (2, "embedded", "0.001", "spec.triggers[0].metadata.lagThreshold"),
    ):
        with pytest.raises(WrongInput) as refused:
            require(pairs, target, rate_scale)
        assert refused.value.field == field
