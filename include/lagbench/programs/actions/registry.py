"""The performer of each kind of action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.core.scenario import ActionBase, ActionKind
from lagbench.errors import WrongInput
from lagbench.programs.actions.broker_actions import (
    DisturbedConnections,
    RestartedBroker,
    SlowDownstreams,
)
from lagbench.programs.actions.deployment_actions import (
    AutoscalerIsDown,
    LagScalerIsDown,
    RollingRestarts,
)
from lagbench.programs.actions.performer import Performer, Stage
from lagbench.programs.actions.pod_actions import KillPods, PausePods
from lagbench.programs.actions.policy_actions import SwapPolicies
from lagbench.programs.actions.topic_actions import GrownTopic

PERFORMERS: Mapping[ActionKind, type[Performer[Any]]] = {
    "kill_pod": KillPods,
    "pause_pod": PausePods,
    "swap_policy": SwapPolicies,
    "autoscaler_down": AutoscalerIsDown,
    "lag_scaler_down": LagScalerIsDown,
    "rolling_restart": RollingRestarts,
    "slow_downstream": SlowDownstreams,
    "broker_unreachable": DisturbedConnections,
    "broker_restart": RestartedBroker,
    "grow_partitions": GrownTopic,
}


def performer(number: int, action: ActionBase, stage: Stage) -> Performer[Any]:
    """Return the performer of action ``number``."""
    kind = str(getattr(action, "kind", ""))
    for known, of_kind in PERFORMERS.items():
        if known == kind:
            return of_kind(number, action, stage)
    raise WrongInput(
        where="scenario", field=f"actions.{number}.kind", value=kind, allowed=", ".join(PERFORMERS)
    )
