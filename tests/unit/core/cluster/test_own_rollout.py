"""A user's Deployment replaces its pods on one machine as it does in production."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.cluster.test_own_deployment import process, read

from lagbench.core.cluster.own_deployment import OwnDeployment
from lagbench.errors import WrongInput

NONE_MISSING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def own(**spec: Any) -> OwnDeployment:
    """Return an ordinary Deployment with those fields."""
    found = read("probes.yaml")
    found.deployment["spec"].update(spec)
    return found


@pytest.mark.parametrize(
    "spec",
    [
        {"strategy": {"type": "Recreate"}},
        {"strategy": NONE_MISSING, "minReadySeconds": 20},
        {"strategy": {"rollingUpdate": {"maxSurge": "50%"}}},
        {},
    ],
)
def test_strategy_and_ready_time_are_kept(spec: dict[str, Any]) -> None:
    """A rolling restart is played with the limits of the file, and one without has the defaults."""
    played = process(own(**spec), {}).workload["spec"]

    assert {key: played[key] for key in ("strategy", "minReadySeconds") if key in played} == spec


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minReadySeconds": -1}, "spec.minReadySeconds"),
        ({"strategy": "Recreate"}, "spec.strategy"),
        ({"strategy": {"type": "Rolling"}}, "spec.strategy.type"),
        ({"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}, "rollingUpdate"),
        ({"strategy": {"rollingUpdate": {"maxSurge": "some"}}}, "rollingUpdate.maxSurge"),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}},
            "rollingUpdate.maxUnavailable",
        ),
    ],
)
def test_what_a_cluster_would_reject_is_rejected(spec: dict[str, Any], field: str) -> None:
    """Before anything starts, by its field."""
    with pytest.raises(WrongInput) as refused:
        process(own(**spec), {})

    assert refused.value.field.endswith(field)
