"""The services of docker-compose.yaml on an engine, and how tests look at them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import yaml

from lagbench.project import PROJECT_ROOT
from tests.compose.engine.checkout import copy_checkout, secret
from tests.compose.engine.engine import Engine, EngineFailed, wait_until

UP_LIMIT_SECONDS = 1500
"""Two minutes on a free machine; cores that others use may take several times as long."""
_BUILD_LIMIT_SECONDS = 2400
_REQUEST_LIMIT_SECONDS = 60
_UNHEALTHY = "is unhealthy"
"""What compose says of a check that failed, and of nothing else."""
_AIRFLOW, _PROMETHEUS = "http://127.0.0.1:8080", "http://127.0.0.1:9090"
_PROGRAMS = ("k8s/images/programs.Dockerfile", "lagbench/programs:0.1.0")
_SPARK = ("k8s/images/spark.Dockerfile", "lagbench/spark:0.1.0")
_WHEELS = ("k8s/images/airflow.Dockerfile", "lagbench")
_SERVICES = yaml.safe_load((PROJECT_ROOT / "docker-compose.yaml").read_text())["services"]
UNCHECKED = "bench-network"
"""The one service that stays and has no health check: it only sleeps."""
THAT_STAY = {name for name, s in _SERVICES.items() if "profiles" not in s} - {"airflow-init"}
"""The services that run after ``up``."""


@dataclass
class Stack:
    """docker compose in a copy of the checkout."""

    engine: Engine

    @cached_property
    def checkout(self) -> Path:
        """The copy, made when it is first used."""
        folder = self.engine.work / "checkout"
        copy_checkout(folder)
        return folder

    def compose(self, *arguments: str, limit_seconds: float = 300) -> str:
        """Run ``docker compose`` as a user does in the checkout; return what it printed."""
        command = ["docker", "compose", "--progress", "plain", *arguments]
        return self.engine.run(command, cwd=self.checkout, limit_seconds=limit_seconds)

    def build(self) -> None:
        """Build all images: that of the services, those of pods beside it, then the wheels'."""
        folder = self.checkout  # made before two threads want it

        def build_image(dockerfile: str, tag: str) -> None:
            command = ["docker", "build", "--quiet", "--file", dockerfile, "--tag", tag, "."]
            self.engine.run(command, cwd=folder, limit_seconds=_BUILD_LIMIT_SECONDS)

        def build_pods_images() -> None:
            for image in (_PROGRAMS, _SPARK):
                build_image(*image)

        pool = ThreadPoolExecutor(1)
        try:
            pods_images = pool.submit(build_pods_images)
            self.compose("build", limit_seconds=_BUILD_LIMIT_SECONDS)
            pods_images.result()
            build_image(*_WHEELS)  # on the layers of the services' image
        finally:
            pool.shutdown(wait=False)  # after a failure it ends with the engine

    def up(self) -> None:
        """Start all services and return when all are healthy.

        On cores that others use a check may run out of time. Then compose gives up at once, while
        the service becomes well a little later: the same is asked again, until the limit.
        """

        def is_up() -> bool:
            try:
                self.compose("up", "--detach", "--build", "--wait", limit_seconds=UP_LIMIT_SECONDS)
            except EngineFailed as error:
                if _UNHEALTHY in str(error):
                    return False
                raise
            return True

        try:
            wait_until(is_up, "all services healthy", limit_seconds=UP_LIMIT_SECONDS)
        except EngineFailed as error:
            raise EngineFailed(f"{error}\n{self.evidence()}") from None

    def services(self) -> dict[str, str]:
        """Return each service that runs with its health, or its state where it has no check."""
        listed = self.compose("ps", "--format", "json").splitlines()
        found = [json.loads(line) for line in listed if line.strip()]
        return {item["Service"]: item["Health"] or item["State"] for item in found}

    def wait_for_health(self) -> None:
        """Wait until every service is well, without asking compose to change anything."""
        well = dict.fromkeys(THAT_STAY, "healthy") | {UNCHECKED: "running"}

        def are_well() -> bool:
            return self.services() == well

        try:
            wait_until(are_well, "all services are back", limit_seconds=UP_LIMIT_SECONDS)
        except EngineFailed as error:
            raise EngineFailed(f"{error}: {self.services()}\n{self.evidence()}") from None

    def run_in(self, service: str, *command: str) -> str:
        """Run a command in a service's container."""
        return self.compose("exec", "--no-TTY", service, *command)

    def ask_prometheus(self, query: str) -> list[dict[str, Any]]:
        """Return the result of an instant query; empty as well when there is no answer yet."""
        try:
            answer = self._get(f"{_PROMETHEUS}/api/v1/query", params={"query": query})
        except httpx.TransportError:
            return []
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:  # it is starting
            return []
        answer.raise_for_status()
        found: list[dict[str, Any]] = answer.json()["data"]["result"]
        return found

    def airflow(self, method: str, path: str, **content: Any) -> httpx.Response:
        """Send a request to Airflow as its administrator."""
        headers = {"Authorization": f"Bearer {self._token}"}
        with self.engine.network():
            return httpx.request(
                method, _AIRFLOW + path,
                headers=headers, timeout=_REQUEST_LIMIT_SECONDS, trust_env=False, **content,
            )  # fmt: skip

    def airflow_as_nobody(self, path: str) -> httpx.Response:
        """Send a request without a log-in."""
        return self._get(_AIRFLOW + path)

    def evidence(self) -> str:
        """Return what is needed to see why something did not come up."""
        try:
            states = self.compose("ps", "--all")
            return f"{states}\n{self.compose('logs', '--no-color', '--tail', '20')}"
        except EngineFailed as error:
            return f"{error}\n{self.engine.log_tail()}"

    @cached_property
    def _token(self) -> str:
        password = secret(self.checkout, "AIRFLOW_ADMIN_PASSWORD")
        with self.engine.network():
            answer = httpx.post(
                f"{_AIRFLOW}/auth/token",
                json={"username": "admin", "password": password},
                timeout=_REQUEST_LIMIT_SECONDS,
                trust_env=False,
            )
        answer.raise_for_status()
        return str(answer.json()["access_token"])

    def _get(self, url: str, **content: Any) -> httpx.Response:
        with self.engine.network():
            return httpx.get(url, timeout=_REQUEST_LIMIT_SECONDS, trust_env=False, **content)
