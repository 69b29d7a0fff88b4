"""Kafka and topics, as every program of a run takes them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, model_validator

from lagbench.core.scenario.run_names import RunNames
from pod_program.flags import Flag


class RunFlags(BaseModel):
    """Kafka and topics; the run id names what is not given."""

    run_id: str | None = Field(
        None, description="id of the run; names the topics and the group that are not given"
    )
    is_second: bool = Field(False, description="those of the run's second consumer group")
    bootstrap_servers: Annotated[str, Flag(variables=("KAFKA_BOOTSTRAP_SERVERS",))] = Field(
        description="host:port of Kafka"
    )
    topic: str = Field(description="topic of the events; default: the run's, by --run-id")

    @model_validator(mode="before")
    @classmethod
    def _names_of_run(cls, given: Any) -> Any:
        """Add the names of the run that the model has and that were not given."""
        if not given.get("run_id"):
            return given
        names = RunNames(given["run_id"], is_second=given.get("is_second") in (True, "on"))
        of_run = {
            "topic": names.events_topic,
            "processed_topic": names.processed_topic,
            "telemetry_topic": names.telemetry_topic,
            "group": names.group,
            "deployment": names.consumers,
        }
        return {field: of_run[field] for field in of_run if field in cls.model_fields} | given
