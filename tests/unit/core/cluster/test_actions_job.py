"""The Job that plays a run's actions."""

from __future__ import annotations

import pytest
from tests.unit.core.cluster.consumer_pod import read_by

from lagbench.adapters.kube.manifest_files import base_manifest
from lagbench.catalog.catalog import checked_cell
from lagbench.core.cluster.jobs import actions_job_for_run
from lagbench.core.cluster.manifests import RunTarget
from lagbench.core.scenario.profiles import Stage, StagesProfile
from lagbench.core.scenario.run_names import RunNames
from lagbench.programs.actions.settings import parse_options


@pytest.mark.parametrize("mark", [True, None])
def test_lag_is_drained_after_the_last_spike_marked_or_not(mark: bool | None) -> None:
    """2 pods do 1,000/s: the rate of the second stage is a spike by the rule."""
    cell = checked_cell("quick_spike")
    stages = ((15, 600, None), (60, 6000, mark), (10, 600, None))
    profile = StagesProfile(
        kind="stages",
        stages=tuple(Stage(seconds=s, rate_per_second=r, is_spike=m) for s, r, m in stages),
    )
    scenario = cell.scenario.model_copy(update={"profile": profile})
    target = RunTarget(RunNames("a-run"), "kafka:9092")

    job = actions_job_for_run(base_manifest("actions", "Job"), target, scenario, cell.policy.limits)

    assert read_by(parse_options, job).drained_after_seconds == 75
