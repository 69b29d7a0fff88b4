"""A real Prometheus that scrapes pods of localkube under a committed scrape configuration.

Debian's Prometheus is built without Kubernetes discovery. So the test lists the pods, and hands
them over in a file with the labels that this discovery would give; relabelling and scraping are
Prometheus' own.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.eventually import eventually

from lagbench.embedded.child_server import free_port
from lagbench.project import PROJECT_ROOT
from localkube.processes import end_process, start_tied

_MONITORING = PROJECT_ROOT / "k8s" / "base" / "monitoring"
_META = "__meta_kubernetes_"
_ANSWER_SECONDS = 60.0
_STARTS = 3


@dataclass(frozen=True)
class PrometheusProcess:
    """A running Prometheus."""

    port: int
    targets_file: Path

    def scrape(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Scrape these pods from now on, as far as the configuration keeps them."""
        text = json.dumps([target for pod in pods for target in discovered(pod)])
        if self.targets_file.exists() and self.targets_file.read_text(encoding="utf-8") == text:
            return
        written = self.targets_file.with_suffix(".new")
        written.write_text(text, encoding="utf-8")
        written.replace(self.targets_file)  # Prometheus never reads half a file

    def ask(self, path: str, **parameters: object) -> Any:
        """Return the data of an answer; a query that is rejected fails with Prometheus' words."""
        query = urllib.parse.urlencode(parameters)
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}"
        try:
            with urllib.request.urlopen(url, timeout=_ANSWER_SECONDS) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refused:
            raise AssertionError(f"{parameters}: {refused.read().decode()}") from refused

    def rules(self) -> list[LoadedRule]:
        """Return the alert rules that it has loaded."""
        return [
            LoadedRule(rule["name"], rule["health"], rule["state"] == "firing")
            for group in self.ask("rules", type="alert")["groups"]
            for rule in group["rules"]
        ]


@dataclass(frozen=True)
class LoadedRule:
    """An alert rule as Prometheus has it; ``health`` is ok once it was evaluated without error."""

    name: str
    health: str
    is_firing: bool


def discovered(pod: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one target per container port, labelled as Kubernetes discovery labels it."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    of_pod = {
        f"{_META}namespace": metadata["namespace"],
        f"{_META}pod_name": metadata["name"],
        f"{_META}pod_phase": status.get("phase", ""),
        **_named("pod_label", metadata.get("labels")),
        **_named("pod_annotation", metadata.get("annotations")),
    }
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            address = f"{status.get('podIP', '')}:{port['containerPort']}"
            labels = {**of_pod, f"{_META}pod_container_port_name": port.get("name", "")}
            yield {"targets": [address], "labels": labels}


def adapted(
    config_file: Path, targets_file: Path, addresses: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return a committed configuration whose pods come from a file; the rest is as committed.

    ``addresses`` say where a service is that it names, for a place without cluster DNS.
    """
    config: dict[str, Any] = yaml.safe_load(config_file.read_text(encoding="utf-8"))
    config["rule_files"] = [str(_MONITORING / name) for name in config["rule_files"]]
    for job in config["scrape_configs"]:
        if job.pop("kubernetes_sd_configs", None) is not None:
            job["file_sd_configs"] = [{"files": [str(targets_file)], "refresh_interval": "1s"}]
        for group in job.get("static_configs") or ():
            group["targets"] = [(addresses or {}).get(name, name) for name in group["targets"]]
    return config


def debian_program(name: str) -> str:
    """Return a program of Debian's package; without it the test is skipped, and says how."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install --no-install-recommends prometheus")
    return found


@contextmanager
def running_prometheus(
    config_file: Path,
    folder: Path,
    addresses: Mapping[str, str] | None = None,
    *,
    past: str = "",
) -> Iterator[PrometheusProcess]:
    """Run Prometheus on loopback for the time of the block.

    ``past`` are samples that it has already, in the OpenMetrics format. It ends when somebody takes
    its port between choice and use; then it has another one.
    """
    with ExitStack() as stack:
        for attempt in range(_STARTS):
            try:
                running = stack.enter_context(
                    _started(config_file, folder / f"start-{attempt}", addresses, past)
                )
                break
            except PortTaken:
                if attempt == _STARTS - 1:
                    raise
        yield running


class PortTaken(RuntimeError):
    """Another process listens where Prometheus was to."""


@contextmanager
def _started(
    config_file: Path, folder: Path, addresses: Mapping[str, str] | None, past: str
) -> Iterator[PrometheusProcess]:
    program = debian_program("prometheus")
    folder.mkdir(parents=True)
    running = PrometheusProcess(free_port(), folder / "targets.json")
    running.scrape([])
    if past:
        (folder / "past.txt").write_text(past, encoding="utf-8")
        made_of = ["tsdb", "create-blocks-from", "openmetrics", "past.txt", "data"]
        subprocess.run([debian_program("promtool"), *made_of], cwd=folder, check=True)
    config = folder / "prometheus.yml"
    made = adapted(config_file, running.targets_file, addresses)
    config.write_text(yaml.safe_dump(made), encoding="utf-8")
    command = [
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{running.port}",
        "--log.level=warn",
    ]
    with (folder / "prometheus.log").open("ab") as log:
        process = start_tied(command, log=log)
    try:
        eventually(
            lambda: process.poll() is not None or _is_ready(running.port), "Prometheus is ready"
        )
        if process.poll() is not None:
            said = (folder / "prometheus.log").read_text(encoding="utf-8")
            if "address already in use" in said:
                raise PortTaken(said[-500:])
            raise AssertionError(f"Prometheus ended: {said[-2000:]}")
        yield running
    finally:
        end_process(process.pid, grace_seconds=10)
        process.wait(timeout=60)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _named(what: str, values: Mapping[str, str] | None) -> dict[str, str]:
    return {
        f"{_META}{what}_{re.sub('[^a-zA-Z0-9_]', '_', key)}": value
        for key, value in (values or {}).items()
    }
