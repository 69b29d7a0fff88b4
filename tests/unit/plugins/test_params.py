"""The form and what becomes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fakes import airflow_home  # noqa: F401

from lagbench.catalog.catalog import load_scenario
from lagbench.catalog.catalog_files import list_policies, list_scenarios
from lagbench.errors import WrongInput
from lagbench_airflow.params import refuse_unknown, scenario_run_params, settings_of

from airflow.sdk.definitions.param import ParamsDict  # isort: skip


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
    params = {
        "seed": 0,
        "balancer": "range",
        "rate": None,
        "commit": "",
        "spike_mult": 5,
        "graceful_shutdown": "off",
    }

    assert settings_of(params) == {
        "seed": "0",
        "consumer.balancer": "range",
        "profile.spike_mult": "5",
        "consumer.graceful_shutdown": "off",
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


def test_a_key_that_is_no_field_is_refused() -> None:
    """A misspelt key would measure the default in its place; the message names the fields."""
    with pytest.raises(WrongInput) as refused:
        refuse_unknown({"scenario": "quick_spike", "polcy": "lag-quick"})

    assert (refused.value.field, refused.value.value) == ("polcy", "lag-quick")
    assert "policy" in refused.value.allowed


def test_what_airflow_adds_is_taken() -> None:
    """OpenLineage's key is none of the user's."""
    refuse_unknown({**dict.fromkeys(scenario_run_params()), "openlineage": {}})


def test_a_line_without_a_sign_is_refused() -> None:
    """The line is named."""
    with pytest.raises(WrongInput, match="overrides = 'seed 3'"):
        settings_of({"overrides": "seed 3"})


def conf_of_the_page(written: str) -> dict[str, Any]:
    """Return the conf that Airflow's trigger form makes of what is written into the box Settings.

    The form sends all fields, empty ones as null. A box of several types (its FieldAnyOf, 3.3.2)
    is an object when the text is JSON of such a type, else the text as it stands.
    """
    try:
        value = json.loads(written)
    except ValueError:
        value = written
    fields = {name: param.value for name, param in scenario_run_params().items()}
    fields["overrides"] = value if isinstance(value, dict) else written
    return dict(json.loads(json.dumps(fields)))


@pytest.mark.parametrize(
    "written",
    [
        "slos.time_lag_p99_seconds=30\nconsumer.concurrency = 4\n",
        '{"slos.time_lag_p99_seconds": 30, "consumer.concurrency": 4}',
        '{"slos": {"time_lag_p99_seconds": 30}, "consumer": {"concurrency": 4}}',
    ],
)
def test_what_the_page_sends_changes_the_scenario(written: str) -> None:
    """Lines with digits, dotted keys and nested objects pass the form's schema and the catalog."""
    form = ParamsDict(scenario_run_params())
    form.update(conf_of_the_page(written))

    scenario = load_scenario("quick_spike", settings_of(form.validate()))

    assert scenario.slos.time_lag_p99_seconds == 30
    assert scenario.consumer.concurrency == 4


def test_an_object_as_text_is_read_as_an_object() -> None:
    """A client that sends the conf of an earlier page quotes the object."""
    assert settings_of({"overrides": ' {"consumer.static_membership": true}'}) == {
        "consumer.static_membership": "true"
    }


@pytest.mark.parametrize("written", ['{"seed": 3', "=3", "a..b=3"])
def test_what_is_neither_is_refused(written: str) -> None:
    """Half an object and a line without a key are wrong overrides of the conf."""
    with pytest.raises(WrongInput) as refused:
        settings_of({"overrides": written})

    assert (refused.value.where, refused.value.field) == ("conf", "overrides")
