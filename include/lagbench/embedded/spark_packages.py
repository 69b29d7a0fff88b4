"""What Spark needs beside PySpark: the Kafka connector's jars and a Java its launcher takes."""

from __future__ import annotations

import sys
from pathlib import Path

from lagbench.embedded.jars import SPARK, jar_paths
from lagbench.embedded.java import find_java, spark_java_home


def spark_jars() -> list[Path]:
    """Return the jars to submit with a job that reads or writes Kafka."""
    return jar_paths(SPARK)


def spark_environment() -> dict[str, str]:
    """Return the variables for ``spark-submit``: Java, this Python, and the loopback address."""
    return {
        "JAVA_HOME": str(spark_java_home(find_java())),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
