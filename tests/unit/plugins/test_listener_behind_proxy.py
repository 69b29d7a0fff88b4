"""A run goes through the broker proxy only if an action of it needs that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.plugins.conftest import SCENARIO

from lagbench.core.scenario.scenario import Scenario
from lagbench.embedded.broker_settings import ProxiedListener
from lagbench.errors import NotReady
from lagbench_airflow.operators import run_consumers

CUT = {"kind": "broker_unreachable", "at_seconds": 1, "for_seconds": 1}
RESTART = {"kind": "broker_restart", "at_seconds": 1, "for_seconds": 1}
LISTENER = ProxiedListener(port=9094, advertised_port=9095)


def scenario(*actions: dict[str, Any]) -> Scenario:
    """Return the scenario of the operators' tests with these actions."""
    return Scenario.model_validate(SCENARIO | {"actions": list(actions)})


@pytest.mark.parametrize(("actions", "found"), [((), None), ((RESTART,), None), ((CUT,), LISTENER)])
def test_only_consumers_whose_way_is_disturbed_take_the_other_listener(
    actions: tuple[dict[str, Any], ...],
    found: ProxiedListener | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run without such an action is not even slowed by an idle proxy."""
    state = SimpleNamespace(proxied=LISTENER)
    monkeypatch.setattr(run_consumers.bench, "running", lambda _folder: state)

    assert run_consumers.listener_behind_proxy(scenario(*actions)) == found


@pytest.mark.parametrize("state", [None, SimpleNamespace(proxied=None)])
def test_a_bench_without_the_listener_says_what_to_do(
    state: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bench that an earlier version started has none."""
    monkeypatch.setattr(run_consumers.bench, "running", lambda _folder: state)

    with pytest.raises(NotReady, match="lagbench down"):
        run_consumers.listener_behind_proxy(scenario(CUT))
