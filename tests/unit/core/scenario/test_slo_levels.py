"""A limit may have a level: ``warn`` does not fail the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from lagbench.catalog.catalog import load_scenario
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.slo_limits import Slos
from lagbench.errors import WrongInput

FILE: dict[str, Any] = {
    "name": "mine",
    "description": "x",
    "partitions": 4,
    "policy": "lag-quick",
    "profile": {"kind": "steady", "rate_per_second": 10, "duration_seconds": 10},
}


def scenario(folder: Path, slos: object, settings: dict[str, str], **more: object) -> Scenario:
    """Return the scenario of a file with these limits."""
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({**FILE, "slos": slos, **more}))
    return load_scenario(path, settings)


@pytest.mark.parametrize(
    ("slos", "settings", "limit", "is_warned"),
    [
        ({"drain_seconds": 30}, {}, 30, False),
        ({"drain_seconds": {"limit": 30, "level": "warn"}}, {}, 30, True),
        ({"drain_seconds": {"limit": 30, "level": "fail"}}, {}, 30, False),
        ({"drain_seconds": {"limit": 30}}, {}, 30, False),
        # A setting changes its part: a new limit keeps the level, a new level the limit.
        ({"drain_seconds": 30}, {"slos.drain_seconds.level": "warn"}, 30, True),
        ({"drain_seconds": {"limit": 30, "level": "warn"}}, {"slos.drain_seconds": "40"}, 40, True),
        ({}, {"slos.drain_seconds": "40", "slos.drain_seconds.level": "warn"}, 40, True),
    ],
)
def test_a_limit_with_a_level(
    tmp_path: Path, slos: dict[str, Any], settings: dict[str, str], limit: float, *, is_warned: bool
) -> None:
    """The scenario as it is written in the run folder says the same."""
    found = scenario(tmp_path, slos, settings)

    assert (found.slos.drain_seconds, "drain_seconds" in found.slos.warned) == (limit, is_warned)
    again = Scenario.model_validate(found.model_dump(mode="json"))
    assert (again, again.slos.warned) == (found, found.slos.warned)


def test_null_takes_a_limit_with_its_level_away(tmp_path: Path) -> None:
    """As it does a limit without one."""
    warned = {"drain_seconds": {"limit": 30, "level": "warn"}}
    found = scenario(tmp_path, warned, {"slos.drain_seconds": "null"})

    assert (found.slos.drain_seconds, found.slos.warned) == (None, frozenset())


def test_a_level_alone_keeps_the_limit_by_default_and_reaches_the_second_group(
    tmp_path: Path,
) -> None:
    """Of a claim, too."""
    levels = {"flips": {"level": "warn"}, "baseline_at_floor": {"limit": True, "level": "warn"}}

    found = scenario(tmp_path, levels, {}, second_group={"slos": {"flips": 2}})

    assert (found.slos.flips, found.slos.warned) == (0, levels.keys())
    assert found.second_group is not None
    second = found.second_group.slos
    assert (second.flips, second.warned) == (2, levels.keys())


@pytest.mark.parametrize(
    "limit",
    [
        {"limit": 30, "level": "info"},
        {"limit": 30, "levle": "warn"},
        {"level": "warn"},  # it has no limit by default
        {"limit": None, "level": "warn"},
        {"limit": "30", "level": "warn"},
        {"limit": -1},
    ],
)
def test_what_is_no_limit_is_refused_by_its_name(tmp_path: Path, limit: object) -> None:
    """As a plain value is."""
    with pytest.raises(WrongInput) as refused:
        scenario(tmp_path, {"drain_seconds": limit}, {})

    assert refused.value.field.startswith("slos.drain_seconds")


def test_a_level_needs_a_limit_that_the_accounting_can_judge() -> None:
    """With committed offsets alone there is none on lost messages."""
    env = {"ALL": "{bootstrap_servers} {topic} {group}"}
    own = {"kind": "own", "manifest": "x", "accounting": "commits", "env": env}

    with pytest.raises(ValidationError, match=r"slos\.lost"):
        Scenario.model_validate({**FILE, "consumer": own, "slos": {"lost": {"level": "warn"}}})


def test_editors_know_both_forms() -> None:
    """By the schema that ``lagbench new`` writes."""
    plain, both = Slos.model_json_schema()["properties"]["flips"]["anyOf"]

    assert {"type": "integer", "minimum": 0} in plain["anyOf"]
    assert both["properties"]["level"] == {"enum": ["fail", "warn"]}
    with pytest.raises(ValidationError):
        Slos.model_validate({"flips": {"limit": 1, "level": 3}})
