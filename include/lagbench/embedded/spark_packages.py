"""Supply Spark besides PySpark: the Kafka connector's jars, a Java, and the jobs' own code.

``python -m lagbench.embedded.spark_packages FOLDER`` writes the project files that a cluster needs
into FOLDER: the entry script, the package as a zip and the jars.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import lagbench
from lagbench.core.cluster.spark_connection import CODE_ZIP
from lagbench.embedded.jars import SPARK, jar_paths
from lagbench.embedded.java import find_java, spark_java_home
from lagbench.errors import LagbenchError
from lagbench.project import PROJECT_ROOT

SPARK_JOBS = PROJECT_ROOT / "spark_jobs"
POD_TEMPLATE = PROJECT_ROOT / "k8s" / "base" / "spark" / "pod-template.yaml"
# Of include, what the jobs import: of the search for an advice the whole simulator.
_FILES = ("lagbench/__init__.py", "lagbench/consumer_ledger.py", "lagbench/errors.py")
_FOLDERS = ("lag_scaler", "lagbench/core", "lagbench/shared_with_spark", "pod_program")
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # same code, same zip


def spark_jars() -> list[Path]:
    """Return the jars to submit with a job that reads or writes Kafka."""
    return jar_paths(SPARK)


def submit_environment() -> dict[str, str]:
    """Return the variables for any ``spark-submit`` on this machine: Java and this Python."""
    return {"JAVA_HOME": str(spark_java_home(find_java())), "PYSPARK_DRIVER_PYTHON": sys.executable}


def spark_environment() -> dict[str, str]:
    """Return the variables for Spark in one process here; executors elsewhere have their own."""
    return {**submit_environment(), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


def write_code_zip(folder: Path) -> Path:
    """Write the zip that a Spark without this project needs (``--py-files``); return its path."""
    path = folder / CODE_ZIP
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _code():
            archive.writestr(zipfile.ZipInfo(name, _ZIP_EPOCH), content)
    return path


def _code() -> Iterator[tuple[str, bytes]]:
    for source in sorted((SPARK_JOBS / "lagbench_spark").rglob("*.py")):
        yield source.relative_to(SPARK_JOBS).as_posix(), source.read_bytes()
    include = Path(lagbench.__file__).parents[1]
    folders = (sorted((include / name).rglob("*.py")) for name in _FOLDERS)
    for source in chain((include / name for name in _FILES), *folders):
        yield source.relative_to(include).as_posix(), source.read_bytes()


def main(arguments: Sequence[str]) -> int:
    """Write code and jars into the given folder."""
    if len(arguments) != 1:
        sys.stderr.write(f"{__doc__}")
        return 2
    folder = Path(arguments[0])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sources = [*sorted(SPARK_JOBS.glob("*.py")), *spark_jars()]
        written = [write_code_zip(folder), *(shutil.copy(source, folder) for source in sources)]
    except LagbenchError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    sys.stdout.write("".join(f"{path}\n" for path in written))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
