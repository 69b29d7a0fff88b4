"""Open the session of the stream on the standalone cluster that the run's pods form."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import pyspark
from pydantic import Field
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from lagbench.core.scenario.consumer_kinds import SparkFlags
from lagbench.errors import NotReady, WrongInput
from lagbench.programs.consumer.consumer_settings import WorkOptions
from lagbench.programs.run_flags import RunFlags
from lagbench.programs.spark_daemon.daemon import require_version, secret_of
from lagbench.shared_with_spark.spark_job import AUTHENTICATED, SECRET_SETTING
from pod_program.flags import CommandLine, Flag, PodName, Settings

# Batches are short: the optimising compiler would take the cores from the work.
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

_ARROW_ROWS = 2_000

_CONNECTOR = "spark-sql-kafka-0-10"


def open_session(options: EnrichOptions) -> SparkSession:
    """Return the session.

    :raises WrongInput: a jar of the Kafka connector is not there, or the run's secret.
    :raises NotReady: the master does not answer, or has another version of Spark.
    """
    _require_connector(options.jars)
    os.environ["SPARK_LOCAL_IP"] = options.bind_address
    # All pods have one image. PySpark takes the executors' Python from here, not from its conf.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    secret = secret_of(os.environ, where="enrich_stream")
    conf = SparkConf().setAll(_settings(options).items())
    try:
        gateway = launch_gateway(conf)  # its command line shows these settings
        conf.set(SECRET_SETTING, secret)
        session = SparkSession(SparkContext(conf=conf, gateway=gateway))
    except PySparkException as error:
        raise NotReady(f"no session with {options.master}: {error}") from error
    session.sparkContext.setLogLevel("WARN")
    return session


def _settings(options: EnrichOptions) -> dict[str, str]:
    settings = {
        "spark.app.name": "lagbench enrich_stream",
        "spark.master": options.master,
        "spark.driver.memory": f"{options.driver_memory_mebibytes}m",
        "spark.driver.host": options.bind_address,
        "spark.driver.bindAddress": options.bind_address,
        "spark.driver.extraJavaOptions": _JVM,
        "spark.executor.extraJavaOptions": _JVM,
        "spark.executor.cores": str(options.cores_per_worker),
        "spark.executor.memory": f"{options.worker_memory_mebibytes}m",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(_ARROW_ROWS),
        "spark.decommission.enabled": str(options.decommission).lower(),
        **AUTHENTICATED,
        **_allocation(options),
    }
    return settings | ({"spark.jars": options.jars} if options.jars else {})


def _require_connector(jars: str) -> None:
    """Check that each jar is there; without any, that one of Spark's own is the connector.

    :raises WrongInput: a jar is missing.
    """
    given = [Path(jar) for jar in jars.split(",") if jar]
    own = Path(pyspark.__file__).parent / "jars"
    lacking = [str(jar) for jar in given if not jar.is_file()]
    if not given and not any(own.glob(f"{_CONNECTOR}_*.jar")):
        lacking = [f"nothing, and {own} has no {_CONNECTOR}"]
    if lacking:
        raise WrongInput(
            where="enrich_stream",
            field="--jars",
            value=lacking[0],
            allowed=f"jars of {_CONNECTOR} and what it needs, as `make install` fetches them and "
            "the image of Spark has them",
        )


def _allocation(options: EnrichOptions) -> dict[str, str]:
    """Return how many executors Spark takes; by itself it takes those that come later, too."""
    fewest = options.dynamic_allocation_min
    if fewest is None:
        return {"spark.dynamicAllocation.enabled": "false"}
    return {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": str(fewest),
        "spark.dynamicAllocation.initialExecutors": str(fewest),
        # A standalone cluster has no shuffle service unless one is started.
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    }


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
    pod_name: PodName
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
