"""A cell at a part of its rates: the same replicas and seconds, or a refusal by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml
from tests.fakes.policies import EXTERNAL, composite, cron, kafka, prometheus, scaled_object

from lagbench.catalog.catalog import checked_cell
from lagbench.core.policy.policy import Policy
from lagbench.core.policy.rate_scale import scaled_policy
from lagbench.core.simulation.fitting_scale import fitting_scale
from lagbench.core.simulation.simulate import simulate
from lagbench.errors import WrongInput

LAG = 'sum(kafka_consumergroup_lag{consumergroup="g"})'
LOAD = f'sum(rate(kafka_topic_partition_current_offset{{topic="t"}}[30s])) + {LAG} / 9'
OF_TRAFFIC = ("peak_lag_records",)


@pytest.mark.parametrize(
    ("scenario", "policy"),
    [
        ("quick_spike", "lag-quick"),
        ("quick_spike", "prometheus-lag"),
        ("quick_spike", "projected-lag"),
        ("quick_spike", "cpu-only"),
        ("lab_spike", "lab-oracle"),
        ("sustained_step", "persistent-lag"),
    ],
)
def test_a_tenth_of_the_rates_takes_the_same_replicas_and_seconds(
    scenario: str, policy: str
) -> None:
    """All but the records themselves, to a hundredth of a second."""
    whole, tenth = (
        simulate(cell.scenario, cell.policy)
        for scale in ("1", "0.1")
        for cell in [checked_cell(scenario, policy=policy, overrides={"rate_scale": scale})]
    )

    assert np.array_equal(whole.timeline.spec_replicas, tenth.timeline.spec_replicas)
    assert np.allclose(whole.timeline.second, tenth.timeline.second)
    for name, value in whole.to_json()["measures"].items():
        factor = 0.1 if name in OF_TRAFFIC else 1
        found = tenth.to_json()["measures"][name]
        assert found == pytest.approx(value if value is None else value * factor, abs=0.01), name


def test_the_files_of_the_run_have_the_scaled_values() -> None:
    """So the run can be read again: its scenario is at rate scale 1."""
    overrides = {"rate_scale": "0.1", "abort.lag_records": "500"}
    cell = checked_cell("quick_spike", overrides=overrides)
    whole = checked_cell("quick_spike")
    scenario, policy = yaml.safe_load(cell.scenario_text), yaml.safe_load(cell.policy_text)

    assert (cell.rate_scale, "rate_scale" in scenario) == (0.1, False)
    assert scenario["abort"]["lag_records"] == 50
    assert scenario["profile"]["rate_per_second"] == 0.1 * whole.scenario.profile.rate_per_second
    assert scenario["consumer"]["process_ms"] == 10 * whole.scenario.consumer.process_ms
    assert policy["spec"]["triggers"][0]["metadata"]["lagThreshold"] == "50"


@pytest.mark.parametrize(
    ("spec", "factor", "thresholds"),
    [
        ({"triggers": [kafka(lagThreshold=None)]}, 0.1, {"lagThreshold": "1"}),
        ({"triggers": [kafka(lagThreshold="333")]}, 0.1, {"lagThreshold": "33"}),
        ({"triggers": [kafka(activationLagThreshold="20")]}, 0.5, {"activationLagThreshold": "10"}),
        ({"triggers": [prometheus(LAG)]}, 0.1, {"threshold": "0.5"}),
        ({"triggers": [prometheus(LOAD)]}, 0.1, {"threshold": "0.5"}),
        (composite("a + b"), 0.1, {"target": "1"}),
        ({"triggers": [kafka(), cron()]}, 0.1, {"lagThreshold": "50"}),
    ],
)
def test_every_threshold_on_lag_is_scaled(
    spec: dict[str, Any], factor: float, thresholds: dict[str, str]
) -> None:
    """Whole numbers are rounded, KEDA's default is written."""
    found = scaled_policy(Policy.read(scaled_object(**spec), where="p"), factor).manifest["spec"]
    written = {
        **found["triggers"][0]["metadata"],
        **found.get("advanced", {}).get("scalingModifiers", {}),
    }

    assert written.items() >= thresholds.items()


@pytest.mark.parametrize(
    ("spec", "factor", "field"),
    [
        ({"triggers": [kafka(lagThreshold="10")]}, 0.25, "lagThreshold"),
        ({"triggers": [kafka(lagThreshold="3")]}, 0.1, "lagThreshold"),
        ({"triggers": [prometheus("sum(rate(x[1m])) * 2")]}, 0.1, "query"),
        ({"triggers": [EXTERNAL]}, 0.1, "type"),
        (composite("a > 500 ? 10 : 1"), 0.1, "formula"),
    ],
)
def test_an_opaque_threshold_is_refused_by_name(
    spec: dict[str, Any], factor: float, field: str
) -> None:
    """So is one that rounding would change by more than a twentieth."""
    with pytest.raises(WrongInput) as refused:
        scaled_policy(Policy.read(scaled_object(**spec), where="p"), factor)

    assert refused.value.field.endswith(field)


def test_a_scale_is_proposed_where_the_machine_is_too_small() -> None:
    """The highest one that fits; none where the pods' CPU alone is too much."""
    cell = checked_cell("standard_spike")
    groups = [(cell.scenario, cell.policy)]
    busy = cell.scenario.model_copy(
        update={"consumer": cell.scenario.consumer.model_copy(update={"cpu_ms": 0.2})}
    )

    small, large = fitting_scale(groups, 1, 1.0)[0], fitting_scale(groups, 4, 1.0)[0]
    assert small is not None
    assert large is not None
    assert small < large < 1
    assert fitting_scale([(busy, cell.policy)], 2, 1.0)[0] is None
