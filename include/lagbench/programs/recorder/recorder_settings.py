"""Define the settings of the recorder and read them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveInt

from lagbench.core.scenario.run_names import CONSUMER_DEPLOYMENT, NAMESPACE, RUN_ID_LABEL
from lagbench.core.scenario.scenario import Workload
from lagbench.programs.run_flags import RunFlags
from pod_program.flags import CommandLine, Flag, Settings


class RecorderOptions(RunFlags, Settings):
    """lagbench's observer of a run."""

    group: str = Field(description="consumer group; default: the run's, by --run-id")
    telemetry_topic: str = Field(
        description="topic of the telemetry; default: the run's, by --run-id"
    )
    namespace: str = Field(NAMESPACE, description="namespace of the consumers")
    deployment: str = Field(CONSUMER_DEPLOYMENT, description="workload of the consumers")
    workload: Workload = Field("Deployment", description="kind of that workload")
    interval_seconds: float = Field(1.0, ge=0.1, le=3600, description="time between two samples")
    has_metric_aliases: Annotated[bool, Flag("metric-aliases")] = Field(
        False, description="metrics also have the names of kafka_exporter and kube-state-metrics"
    )
    source: Annotated[str, Flag(variables=("POD_NAME",), is_variable_only=True)] = Field(
        "recorder", description="the pod's metadata.name"
    )
    observed_pids: dict[str, PositiveInt] = Field(
        {}, description='a JSON object of process ids by name, such as {"broker": 4711}'
    )

    @property
    def pod_selector(self) -> str:
        """The label selector of the run's consumers: others may have pods of the same ``app``."""
        of_deployment = f"app={self.deployment}"
        if self.run_id is None:  # the topics were named one by one
            return of_deployment
        return f"{of_deployment},{RUN_ID_LABEL}={self.run_id}"


parse_options = CommandLine(RecorderOptions, module="lagbench.programs.recorder").read
