"""Open the session of the stream on the standalone cluster that the run's pods form."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lagbench.errors import NotReady, WrongInput
from lagbench_enrich.options import EnrichOptions

# Batches are short: the optimising compiler would take the cores from the work.
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_ARROW_ROWS = 2_000
_CONNECTOR = "spark-sql-kafka-0-10"


def open_session(options: EnrichOptions) -> SparkSession:
    """Return the session.

    :raises WrongInput: a jar of the Kafka connector is not there.
    :raises NotReady: the master does not answer, or has another version of Spark.
    """
    _require_connector(options.jars)
    os.environ["SPARK_LOCAL_IP"] = options.bind_address
    # All pods have one image. PySpark takes the executors' Python from here, not from its conf.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.appName("lagbench enrich_stream")
        .master(options.master)
        .config("spark.driver.memory", f"{options.driver_memory_mebibytes}m")
        .config("spark.driver.host", options.bind_address)
        .config("spark.driver.bindAddress", options.bind_address)
        .config("spark.driver.extraJavaOptions", _JVM)
        .config("spark.executor.extraJavaOptions", _JVM)
        .config("spark.executor.cores", options.cores_per_worker)
        .config("spark.executor.memory", f"{options.worker_memory_mebibytes}m")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", _ARROW_ROWS)
        .config("spark.decommission.enabled", str(options.decommission).lower())
    )
    for key, text in _allocation(options).items():
        builder = builder.config(key, text)
    if options.jars:
        builder = builder.config("spark.jars", options.jars)
    try:
        session = builder.getOrCreate()
    except PySparkException as error:
        raise NotReady(f"no session with {options.master}: {error}") from error
    session.sparkContext.setLogLevel("WARN")
    return session


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
