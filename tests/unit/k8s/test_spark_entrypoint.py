"""The Spark image's entry point, with programs that print how they were called."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.unit.k8s.base_pods import K8S

from lagbench.shared_with_spark.spark_job import AUTHENTICATED

SCRIPT = K8S / "images" / "spark-entrypoint.sh"
EXECUTOR = {
    "SPARK_JAVA_OPT_0": "-Dspark.driver.port=7078",
    "SPARK_JAVA_OPT_1": "-Dname=with blanks",
    "SPARK_EXECUTOR_MEMORY": "1g",
    "SPARK_DRIVER_URL": "spark://driver",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "app",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "exec-1",
}


@pytest.fixture
def spark(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose Java and Spark print their arguments, one a line."""
    for program in ("java", "spark-submit", "spark-class"):
        path = tmp_path / "bin" / program
        path.parent.mkdir(exist_ok=True)
        path.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
        path.chmod(0o755)
    return {"SPARK_HOME": str(tmp_path), "JAVA_HOME": str(tmp_path), "PATH": os.defpath}


def test_an_executor_gets_its_options_whole(spark: dict[str, str]) -> None:
    """Each SPARK_JAVA_OPT_<n> is one argument, and the backend gets its seven facts."""
    lines = _run(["executor"], spark | EXECUTOR)

    assert lines[0].endswith("/java")
    assert lines[1:5] == ["-Dspark.driver.port=7078", "-Dname=with blanks", "-Xms1g", "-Xmx1g"]
    backend = lines.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend")
    facts = dict(zip(lines[backend + 1 :: 2], lines[backend + 2 :: 2], strict=True))
    assert facts == {
        "--driver-url": "spark://driver",
        "--executor-id": "1",
        "--cores": "2",
        "--app-id": "app",
        "--hostname": "10.0.0.2",
        "--resourceProfileId": "0",
        "--podName": "exec-1",
    }


def test_a_driver_binds_to_its_pod(spark: dict[str, str]) -> None:
    """The arguments of the backend follow those that bind the driver."""
    lines = _run(
        ["driver", "--properties-file", "/p", "local:///job.py"],
        spark | {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.1"},
    )

    assert lines[0].endswith("/spark-submit")
    assert "spark.driver.bindAddress=10.0.0.1" in lines
    assert lines[-3:] == ["--properties-file", "/p", "local:///job.py"]


def test_a_standalone_cluster_starts_from_the_same_image(spark: dict[str, str]) -> None:
    """``master`` and ``worker URL`` are Spark's own classes; other commands run as they are."""
    assert _run(["printf", "%s", "as it is"], spark) == ["as it is"]
    spark["_SPARK_AUTH_SECRET"] = "ours"  # noqa: S105 - of no use
    assert _run(["master"], spark)[1:] == ["org.apache.spark.deploy.master.Master"]
    assert _run(["worker", "spark://m:7077"], spark)[-1] == "spark://m:7077"


@pytest.mark.parametrize("role", ["master", "worker"])
def test_a_standalone_cluster_takes_only_who_has_its_secret(
    role: str, spark: dict[str, str]
) -> None:
    """The daemons ask for it and have no other door; without one they do not start."""
    with pytest.raises(subprocess.CalledProcessError, check=lambda error: error.returncode == 2):
        _run([role], spark)

    (Path(spark["SPARK_HOME"]) / "bin/spark-class").write_text("#!/bin/sh\nenv\n")
    said = _run([role], {**spark, "_SPARK_AUTH_SECRET": "ours", "SPARK_DAEMON_JAVA_OPTS": "-Xint"})

    (options,) = (line for line in said if line.startswith("SPARK_DAEMON_JAVA_OPTS="))
    wanted = {f"-D{name}={value}" for name, value in AUTHENTICATED.items()}
    assert wanted | {"-Dspark.master.rest.enabled=false", "-Xint"} <= set(options[23:].split())
    assert "ours" not in options


def _run(arguments: list[str], environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        ["sh", str(SCRIPT), *arguments],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=20,
    )
    return done.stdout.splitlines()
