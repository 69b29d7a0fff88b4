"""Open the session of the stream on the standalone cluster that the run's pods form."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from lagbench.errors import NotReady, WrongInput
from lagbench.programs.spark_daemon.settings import secret_of
from lagbench.shared_with_spark.spark_authentication import AUTHENTICATED, SECRET_SETTING
from lagbench_enrich.options import EnrichOptions

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
