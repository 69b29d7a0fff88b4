"""The Spark image's entry point, the pods of Spark, and versions that belong together."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.cluster.rig.versions import pinned
from tests.unit.k8s.program_imports import K8S, pod_spec, workloads

import lagbench
from lagbench.core.cluster.spark_connection import DEFAULT_SERVICE_ACCOUNT
from lagbench.embedded.broker import BrokerLayout, server_properties
from lagbench.embedded.jars import BROKER
from lagbench.embedded.spark_packages import POD_TEMPLATE
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


def test_the_template_meets_the_restricted_profile() -> None:
    """The image's user, default seccomp, no new privileges, no capabilities, /tmp to write."""
    pod = yaml.safe_load(POD_TEMPLATE.read_text(encoding="utf-8"))["spec"]

    security = pod["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    dockerfile = (K8S / "images" / "spark.Dockerfile").read_text(encoding="utf-8")
    assert f"USER {security['runAsUser']}:{security['fsGroup']}\n" in dockerfile
    (container,) = pod["containers"]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]  # noqa: S108
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_drivers_account_is_the_default_one() -> None:
    """What a submission names is what k8s/base/spark puts up."""
    rbac = (K8S / "base" / "spark" / "rbac.yaml").read_text(encoding="utf-8")

    accounts = [o for o in yaml.safe_load_all(rbac) if o["kind"] == "ServiceAccount"]

    assert [account["metadata"]["name"] for account in accounts] == [DEFAULT_SERVICE_ACCOUNT]


ADDRESSES = {
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "controller.quorum.voters",
    "log.dirs",
}

KIND_MAKEFILE = (K8S / "kind/kind.mk").read_text(encoding="utf-8")


def test_kafka_has_the_embedded_brokers_settings() -> None:
    """The two differ in addresses and folders, and in nothing else."""
    embedded = _properties(server_properties(BrokerLayout(Path("/x")), port=1, controller_port=2))

    cluster = _properties((K8S / "base/kafka/server.properties").read_text(encoding="utf-8"))

    assert embedded.keys() == cluster.keys()
    assert {name for name in embedded if embedded[name] != cluster[name]} == ADDRESSES


def test_kafka_has_the_embedded_brokers_version() -> None:
    """The image's tag is the version of the locked jars."""
    image = pod_spec(workloads()["StatefulSet/kafka"])["containers"][0]["image"]

    assert image == f"apache/kafka:{BROKER.version}"


def test_kind_installs_what_the_tests_run_against(monkeypatch: pytest.MonkeyPatch) -> None:
    """KEDA, metrics-server and the older minor of Kubernetes as the rig builds them."""
    monkeypatch.setenv("KUBERNETES", "1.34")
    rig = pinned()
    node = yaml.safe_load((K8S / "kind/cluster.yaml").read_text())["nodes"][0]["image"]

    assert _made("KEDA_VERSION") == rig.keda
    assert _made("METRICS_SERVER_VERSION") == rig.metrics_server
    assert node.split(":v")[1].rsplit(".", 1)[0] == rig.kubernetes.rsplit(".", 1)[0]


def test_the_images_carry_the_projects_version() -> None:
    """Makefile and manifests name one tag, lagbench's version."""
    ours = [
        container["image"]
        for workload in workloads().values()
        for container in pod_spec(workload)["containers"]
        if container["image"].startswith("lagbench/")
    ]

    assert set(ours) == {
        f"lagbench/{name}:{lagbench.__version__}" for name in ("programs", "spark")
    }
    assert _made("IMAGE_TAG") == lagbench.__version__


def _made(variable: str) -> str:
    found = re.search(rf"^{variable} := (\S+)$", KIND_MAKEFILE, re.MULTILINE)
    assert found is not None
    return found[1]


def _properties(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)
