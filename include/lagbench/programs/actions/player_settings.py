"""Define the settings of the player and read them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from lagbench.core.scenario.actions import Action
from lagbench.core.scenario.conf_limits import Flag
from lagbench.core.scenario.run_names import CONSUMER_DEPLOYMENT, NAMESPACE, RUN_ID_LABEL
from lagbench.core.scenario.scenario import MAX_SEED, Workload
from lagbench.programs.flags import CommandLine, RunFlags, Settings


class PlayerOptions(RunFlags, Settings):
    """lagbench's player of a run's actions."""

    telemetry_topic: str = Field(
        description="topic of the telemetry; default: the run's, by --run-id"
    )
    second_telemetry_topic: str | None = Field(
        None, description="telemetry of the run's second consumer group, for actions on all groups"
    )
    namespace: str = Field(NAMESPACE, description="namespace of the consumers")
    deployment: str = Field(CONSUMER_DEPLOYMENT, description="workload of the consumers")
    workload: Workload = Field("Deployment", description="kind of that workload")
    seed: int = Field(1, ge=0, le=MAX_SEED, description="draws the pods of an action")
    drained_records: int = Field(0, ge=0, description="lag at which the group has drained")
    drained_after_seconds: float = Field(
        0.0, ge=0, description="second of the stream before which it has not drained"
    )
    source: Annotated[str, Flag(variables=("POD_NAME",), is_variable_only=True)] = Field(
        "actions", description="the pod's metadata.name"
    )
    actions: tuple[Action, ...] = Field(description="the scenario's actions as JSON")
    policies: dict[int, dict[str, Any]] = Field(
        {}, description="a JSON object of new policies by the number of their action"
    )

    @property
    def pod_selector(self) -> str:
        """The label selector of the run's consumers."""
        return f"app={self.deployment},{RUN_ID_LABEL}={self.run_id}"


parse_options = CommandLine(PlayerOptions, module="lagbench.programs.actions").read
