"""Define the options of the driver and read them, before Spark is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from lagbench.core.scenario.flag import Flag
from lagbench.core.scenario.spark_consumer import SparkFlags
from lagbench.programs.consumer.settings import WorkOptions
from lagbench.programs.flags import CommandLine, Settings
from lagbench.programs.run_flags import RunFlags
from lagbench.programs.spark_daemon.settings import require_version


class EnrichOptions(WorkOptions, SparkFlags, RunFlags, Settings):
    """lagbench's consumer under test on Spark Structured Streaming."""

    processed_topic: str = Field(description="topic of the ledger; default: the run's, by --run-id")
    telemetry_topic: str = Field(
        description="topic of the telemetry; default: the run's, by --run-id"
    )
    group: str = Field(
        description="group to which read offsets are published; default: the run's, by --run-id"
    )
    master: Annotated[str, Flag(variables=("SPARK_STREAM_MASTER_URL",))] = Field(
        description="spark://HOST:PORT of the master"
    )
    jars: Annotated[str, Flag(variables=("SPARK_STREAM_JARS",))] = Field(
        "", description="jars of the Kafka connector, separated by commas; empty: Spark has them"
    )
    checkpoint: Annotated[str, Flag(variables=("SPARK_STREAM_CHECKPOINT",))] = Field(
        description="folder or URI of the query's checkpoint"
    )
    spark_version: Annotated[str, Flag(variables=("SPARK_STREAM_VERSION",))] = Field(
        "", description="version of Spark in every pod of the run; empty: not compared"
    )
    floor_workers: int = Field(1, ge=0, description="executors that must be there and warm first")
    pod_name: Annotated[str, Flag(variables=("POD_NAME",), is_variable_only=True)] = Field(
        description="the pod's metadata.name"
    )
    bind_address: Annotated[str, Flag(variables=("BIND_ADDRESS",), is_variable_only=True)] = Field(
        "127.0.0.1", description="address at which executors reach the driver"
    )


def parse_options(arguments: Sequence[str], environment: Mapping[str, str]) -> EnrichOptions:
    """Return the options that ``arguments`` and the pod's environment state.

    :raises WrongInput: a flag is unknown, missing or out of range, or the pod has another Spark.
    """
    options = CommandLine(EnrichOptions, module="enrich_stream").read(arguments, environment)
    require_version(options.spark_version, where="enrich_stream")
    return options
