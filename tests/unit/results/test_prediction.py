"""The prediction in a run folder, before the run and after it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.fakes.run_folder_builder import quick_spike_run

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.policy.checked_policy import CheckedPolicy
from lagbench.report.page import write_report
from lagbench.results.measure import judge_run, measure_run
from lagbench.results.prediction import predict_run, read_prediction
from lagbench.results.read_run import read_evidence, read_scenario


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Return a recorded run that was predicted before it started."""
    written = quick_spike_run().write(tmp_path)
    policy = CheckedPolicy.of_run(yaml.safe_load(written.policy.read_text()), where="lag-quick")
    predict_run(written, read_scenario(written), policy)
    return written


def test_a_measured_run_is_predicted_once_more_with_its_own_phase(folder: RunFolder) -> None:
    """The first recorded sync is all that the second prediction takes from the run."""
    before = read_prediction(folder)

    measure_run(folder)

    made = read_prediction(folder)
    assert before is not None
    assert made is not None
    assert made.before == before.before
    assert made.after is not None
    assert 0 <= (made.after.hpa_sync_at_seconds or -1) <= 16


def test_a_run_without_a_recorded_sync_says_why_it_is_not_predicted_again(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The HPA of a cluster reports no sync."""
    monkeypatch.setattr("lagbench.results.prediction.hpa_sync_at_seconds", lambda _run: None)

    measure_run(folder)

    made = read_prediction(folder)
    assert made is not None
    assert made.after is None
    assert "sync" in made.after_reason


def test_a_policy_that_cannot_be_played_is_noted_with_the_reason(folder: RunFolder) -> None:
    """A run of it is not stopped: only its prediction is missing."""
    nothing = CheckedPolicy.of_run({"kind": "Nothing"}, where="mine.yaml")

    made = predict_run(folder, read_scenario(folder), nothing)

    assert made.before is None
    assert "mine.yaml" in made.before_reason
    measure_run(folder)


def test_an_older_run_has_no_prediction(tmp_path: Path) -> None:
    """A folder from before there were predictions is measured as it was."""
    written = quick_spike_run().write(tmp_path)

    measure_run(written)

    assert read_prediction(written) is None
    assert read_evidence(written).records


def test_the_report_shows_predicted_measured_and_residual(folder: RunFolder) -> None:
    """The report names every predicted measure with its unit."""
    measure_run(folder)
    judge_run(folder)

    text = write_report(folder).read_text()

    assert "Predicted, measured" in text
    assert "Peak lag, messages" in text
