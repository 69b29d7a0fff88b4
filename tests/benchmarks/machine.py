"""The machine and the versions that the figures belong to."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version

import psutil

from lagbench.embedded.jars import BROKER, jar_paths
from lagbench.embedded.java import find_java

_PACKAGES = ("apache-airflow", "confluent-kafka", "pyspark", "pyarrow", "numpy")
_GIB = 1024**3


def describe_machine() -> dict[str, str | float | int]:
    """Return cores, memory, load before the bench began, and versions."""
    broker = next(jar.stem for jar in jar_paths(BROKER) if jar.name.startswith("kafka_2"))
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(psutil.virtual_memory().total / _GIB, 1),
        "load_1_minute": round(os.getloadavg()[0], 2),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": find_java().version,
        "kafka": broker.rpartition("-")[2],
        **{name: version(name) for name in _PACKAGES},
    }
