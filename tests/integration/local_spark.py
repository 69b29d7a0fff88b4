"""One Spark session for the tests of this process; its JVM ends with the process."""

from __future__ import annotations

import os
from unittest.mock import patch

from pyspark.sql import SparkSession

from lagbench.embedded.java import compiler_options
from lagbench.embedded.spark_packages import spark_environment
from lagbench_spark.session import open_session

# The first-tier compiler alone: tests run each query once, on few rows. It has 48 MB for code by
# default: a session of many queries fills them, and compiles again and again.
_JVM_OPTIONS = f"{compiler_options(0)} -XX:ReservedCodeCacheSize=256m -XX:+UseParallelGC"
_SUBMIT_ARGUMENTS = (
    f'--master local[2] --driver-memory 1g --driver-java-options "{_JVM_OPTIONS}" pyspark-shell'
)


def local_spark() -> SparkSession:
    """Return the session, started at the first call."""
    wanted = {**spark_environment(), "PYSPARK_SUBMIT_ARGS": _SUBMIT_ARGUMENTS}
    with patch.dict(os.environ, wanted):  # what other tests start does not inherit it
        return open_session("lagbench tests")
