"""The compose files pin and check what they start, and hold no secret."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

import pytest
import yaml

import lagbench
from lagbench.embedded.bench_state import BenchFiles
from lagbench.embedded.jars import BROKER

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
UNCHECKED = {"airflow-init", "bench-network"}
"""One ends, the other only sleeps."""
INTERPOLATED = re.compile(r"\$\{([A-Z_]+)(:[?-][^}]*)?\}")


@pytest.mark.parametrize("name", SERVICES)
def test_services_are_pinned_and_checked(name: str) -> None:
    """Each image has a full version, each service that stays a health check."""
    service = SERVICES[name]

    assert re.search(r":(\$\{[A-Z_]+:-)?v?\d+\.\d+", service["image"])
    assert ("healthcheck" in service) != (name in UNCHECKED)


def test_one_service_builds_an_image_that_no_registry_has() -> None:
    """Two builds of one tag at a time end in an error, and a pull in a foreign image."""
    ours = {n: s for n, s in SERVICES.items() if s["image"].startswith("lagbench/")}

    assert {name for name, s in SERVICES.items() if "build" in s} == {"airflow-init"}
    assert {name: s["pull_policy"] for name, s in ours.items()} == {
        name: "build" if name == "airflow-init" else "never" for name in ours
    }


def test_the_database_is_asked_by_tcp() -> None:
    """The server that sets up an empty volume has a socket only, and Airflow must not meet it."""
    test = SERVICES["postgres"]["healthcheck"]["test"]

    assert test[test.index("-h") + 1] == "127.0.0.1"


def test_kafka_may_load_what_it_unpacks() -> None:
    """Docker mounts a tmpfs noexec, and zstd and snappy put shared objects there."""
    assert "/tmp:exec" in SERVICES["kafka"]["tmpfs"]  # noqa: S108 - a path in a container


def test_prometheus_is_healthy_only_with_its_bench() -> None:
    """Its check asks for a pod that is always there, in a namespace in which it looks for pods."""
    check = unquote(" ".join(SERVICES["prometheus"]["healthcheck"]["test"]))
    autoscaler = yaml.safe_load((ROOT / "k8s/base/autoscaler/deployment.yaml").read_text())
    prometheus = yaml.safe_load((ROOT / "k8s/compose/prometheus.yml").read_text())
    (job,) = prometheus["scrape_configs"]
    (discovery,) = job["kubernetes_sd_configs"]

    app = autoscaler["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"]

    assert f'up{{app="{app}"}}==1' in check
    assert autoscaler["metadata"]["namespace"] in discovery["namespaces"]["names"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_no_rights_and_limits(name: str) -> None:
    """No capability, no new privileges, a root to read, memory and processes within bounds."""
    service = SERVICES[name]
    is_iggy = name == "iggy"  # io_uring, see the file

    assert service["cap_drop"] == ["ALL"]
    assert service.get("cap_add", []) == (["SYS_NICE"] if is_iggy else [])
    unconfined = ["seccomp:unconfined"] if is_iggy else []
    assert service["security_opt"] == ["no-new-privileges:true", *unconfined]
    assert service["read_only"] is not is_iggy
    assert service["mem_limit"]
    assert service["pids_limit"] > 0
    assert not service.get("privileged")


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_on_loopback_only(name: str) -> None:
    """Nothing of the bench is offered to the network."""
    for port in SERVICES[name].get("ports", ()):
        assert port.startswith("127.0.0.1:")


def test_mounted_files_are_there() -> None:
    """Every bind mount names a path of the project, read-only."""
    mounts = [
        volume.split(":")
        for service in SERVICES.values()
        for volume in service.get("volumes", ())
        if volume.startswith("./")
    ]

    assert mounts
    assert all(mount[2] == "ro" for mount in mounts)
    assert [source for source, *_ in mounts if not (ROOT / source).exists()] == []


def test_secrets_come_from_the_environment() -> None:
    """Every secret is a required variable, with an empty place in .env.example."""
    example = (ROOT / ".env.example").read_text().splitlines()
    text = (ROOT / "docker-compose.yaml").read_text()
    secret = re.compile("PASSWORD|SECRET|KEY")

    wanted = {n for n, how in INTERPOLATED.findall(text) if secret.search(n) or "?" in how}

    assert {n for n, how in INTERPOLATED.findall(text) if how.startswith(":?")} == wanted
    assert {line[:-1] for line in example if line.endswith("=")} == wanted
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if secret.search(name) and not name.endswith("_FILE"):
                assert value.startswith("${"), name


def test_make_env_fills_every_secret_differently(tmp_path: Path) -> None:
    """Each empty value gets 32 random bytes, in a file for its owner; a second call keeps them."""
    for name in ("Makefile", ".env.example", "k8s"):
        (tmp_path / name).symlink_to(ROOT / name)
    make = ["make", "--silent", ".env"]

    subprocess.run(make, cwd=tmp_path, check=True, capture_output=True, timeout=30)
    first = (tmp_path / ".env").read_text()
    subprocess.run(make, cwd=tmp_path, check=True, capture_output=True, timeout=30)

    assert (tmp_path / ".env").read_text() == first
    values = [line.partition("=")[2] for line in first.splitlines() if not line.startswith("#")]
    assert all(values)
    assert len(set(values)) == len(values)
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0


def test_airflow_runs_the_bench_of_its_own_container() -> None:
    """The connections name compose's broker and the kubeconfig that localkube writes."""
    environment = SERVICES["airflow-scheduler"]["environment"]
    kubernetes = json.loads(environment["AIRFLOW_CONN_KUBERNETES_DEFAULT"])
    kafka = json.loads(environment["AIRFLOW_CONN_KAFKA_DEFAULT"])

    kubeconfig = BenchFiles(Path(environment["LAGBENCH_STATE_DIR"])).kubeconfig

    assert kubernetes["extra"]["kube_config_path"] == str(kubeconfig)
    assert kafka["extra"]["bootstrap.servers"] == "kafka:9092"


def test_all_of_airflow_is_reported_the_same() -> None:
    """One image, one environment except for the administrator's password."""
    ours = {name: s for name, s in SERVICES.items() if name.startswith("airflow-")}
    environments = [dict(s["environment"]) for s in ours.values()]
    for environment in environments:
        environment.pop("AIRFLOW_ADMIN_PASSWORD", None)

    assert {s["image"] for s in ours.values()} == {f"lagbench/airflow:{lagbench.__version__}"}
    assert all(environment == environments[0] for environment in environments)
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{BROKER.version}"


def test_the_iggy_server_is_only_there_on_request() -> None:
    """Profile iggy, a fixed version and a health check by its own client."""
    iggy = SERVICES["iggy"]

    assert iggy["profiles"] == ["iggy"]
    assert iggy["image"] == "apache/iggy:${IGGY_VERSION:-0.8.0}"
    assert iggy["healthcheck"]["test"][-1] == "ping"
    assert {name for name, s in SERVICES.items() if "profiles" in s} == {"iggy"}


def test_the_cluster_variant_is_a_project_of_its_own() -> None:
    """It cannot take over half of a stack that runs: other containers, volumes, a network."""
    variant = yaml.safe_load((ROOT / "docker-compose.kind.yaml").read_text())

    assert variant["name"] != COMPOSE["name"]


def test_the_cluster_variant_changes_services_that_are_there() -> None:
    """docker-compose.kind.yaml overrides, and adds nothing."""
    variant = yaml.safe_load((ROOT / "docker-compose.kind.yaml").read_text())

    assert set(variant["services"]) <= set(SERVICES)
    for name, service in variant["services"].items():  # Compose refuses both in one service
        assert not ("networks" in service and "network_mode" in SERVICES[name])
    connections = variant["services"]["airflow-scheduler"]["environment"]
    assert all(json.loads(value)["conn_type"] for value in connections.values())
    assert connections.keys() <= SERVICES["airflow-scheduler"]["environment"].keys()


@pytest.mark.parametrize(("status", "code"), [("healthy", 0), ("unhealthy", 1), (None, 1)])
def test_health_is_what_airflow_says(status: str | None, code: int) -> None:
    """The check passes for healthy alone, and fails for what is not there."""
    with _airflow({"scheduler": {"status": status}} if status else {}) as address:
        done = _ask(address)

    assert done.returncode == code


def test_no_answer_is_not_healthy() -> None:
    """A closed port is an exit code and a line, not a traceback."""
    with _airflow({}) as address:
        pass

    done = _ask(address)

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1


def _ask(address: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / "k8s/compose/airflow_health.py"
    command = [sys.executable, str(script), "scheduler", address]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=20)


@contextmanager
def _airflow(health: dict[str, Any]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(health).encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
