"""The form and what becomes of it."""

from __future__ import annotations

import pytest
from tests.fakes import airflow_home  # noqa: F401

from lagbench.catalog import list_policies, list_scenarios
from lagbench.errors import WrongInput
from lagbench_airflow.params import scenario_run_params, settings_of


def test_the_form_offers_the_catalog() -> None:
    """Scenarios and policies in the form are those of the catalog; quick_spike is the default."""
    form = scenario_run_params()

    assert form["scenario"].schema["examples"] == list_scenarios()
    assert form["scenario"].value == "quick_spike"
    assert form["policy"].schema["examples"] == list_policies()


def test_every_default_is_valid() -> None:
    """The form can be sent as it comes."""
    for param in scenario_run_params().values():
        param.resolve()


def test_fields_become_settings() -> None:
    """A filled field is a setting; an empty one leaves the scenario alone."""
    params = {"seed": 0, "balancer": "range", "rate": None, "commit": "", "spike_mult": 5}

    assert settings_of(params) == {
        "seed": "0",
        "consumer.balancer": "range",
        "profile.spike_mult": "5",
    }


@pytest.mark.parametrize(
    "given",
    [{"consumer.concurrency": 4, "seed": "3"}, "consumer.concurrency=4\n\n seed = 3 \n"],
)
def test_overrides_are_lines_or_an_object(given: object) -> None:
    """Both forms give the same settings."""
    assert settings_of({"overrides": given}) == {"consumer.concurrency": "4", "seed": "3"}


def test_the_form_s_field_wins() -> None:
    """A field of the form beats the same setting in the overrides."""
    assert settings_of({"seed": 9, "overrides": "seed=3"}) == {"seed": "9"}


def test_a_line_without_a_sign_is_refused() -> None:
    """The line is named."""
    with pytest.raises(WrongInput, match="overrides = 'seed 3'"):
        settings_of({"overrides": "seed 3"})
