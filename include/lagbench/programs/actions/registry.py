"""The performer of each kind of action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.core.scenario.actions import ActionBase, ActionKind
from lagbench.programs.actions.broker_actions import (
    DisturbedConnections,
    RestartedBroker,
    SlowDownstreams,
)
from lagbench.programs.actions.deployment_actions import (
    DeploymentIsDown,
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
    "autoscaler_down": DeploymentIsDown,
    "lag_scaler_down": DeploymentIsDown,
    "rolling_restart": RollingRestarts,
    "slow_downstream": SlowDownstreams,
    "broker_unreachable": DisturbedConnections,
    "broker_restart": RestartedBroker,
    "grow_partitions": GrownTopic,
}


def performer(number: int, action: ActionBase, stage: Stage) -> Performer[Any]:
    """Return the performer of action ``number``."""
    return PERFORMERS[action.kind](number, action, stage)
