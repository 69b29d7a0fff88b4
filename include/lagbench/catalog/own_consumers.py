"""Read the files of a consumer that the user brings: its manifest and its variables."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lagbench.catalog.catalog_files import resolved
from lagbench.catalog.kubernetes_files import parse_objects, typed_objects
from lagbench.catalog.strict_yaml import read_bytes, read_text
from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.cluster.manifests import RunTarget
from lagbench.core.cluster.own_deployment import (
    KafkaSettings,
    OwnDeployment,
    own_consumer_for_cluster,
    own_deployment,
    require_kafka_secret,
)
from lagbench.core.cluster.own_process import own_consumer_as_process
from lagbench.core.scenario.own_consumer import require_no_secrets
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.scenario.scenario import ConsumerSettings, Scenario
from lagbench.errors import WrongInput
from pod_program.shown import HIDDEN

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_QUOTES = ("'", '"')


def with_own_files(scenario: Scenario, scenario_file: Path) -> Scenario:
    """Return the scenario with its consumer's files by whole paths, and the manifest's hash."""
    consumer = scenario.consumer
    if consumer.kind != "own" or consumer.manifest is None:
        return scenario
    require_no_secrets(consumer, scenario.actions, where=str(scenario_file))
    manifest = resolved("consumer.manifest", scenario_file.parent / consumer.manifest)
    content = read_bytes(manifest)
    found: dict[str, str] = {
        "manifest": str(manifest),
        "manifest_sha256": hashlib.sha256(content).hexdigest(),
    }
    if consumer.env_file is not None:
        env_file = resolved("consumer.env_file", scenario_file.parent / consumer.env_file)
        found["env_file"] = str(env_file)
    known = scenario.model_copy(update={"consumer": consumer.model_copy(update=found)})
    read_own_deployment(manifest, known.consumer)
    read_environment(known.consumer)
    return known


def read_own_deployment(file: Path, consumer: ConsumerSettings) -> OwnDeployment:
    """Return the Deployment in a file, which may be the copy in a run folder."""
    where = consumer.manifest or str(file)
    documents = parse_objects(read_text(file), where=where, is_private=True)
    documents = typed_objects(documents, where=where)
    return own_deployment(documents, where=where, container=consumer.container)


def read_environment(consumer: ConsumerSettings) -> Mapping[str, str]:
    """Return the variables in the file of variables; none without one."""
    if consumer.env_file is None:
        return {}
    found = {}
    for number, line in enumerate(read_text(Path(consumer.env_file)).splitlines(), start=1):
        text = line.strip().removeprefix("export ")
        if not text or text.startswith("#"):
            continue
        name, sign, value = text.partition("=")
        if not sign or not _NAME.fullmatch(name.strip()):
            raise WrongInput(
                where=consumer.env_file,
                field=f"line {number}",
                value=HIDDEN,
                allowed="NAME=value, or a comment that begins with #",
            )
        found[name.strip()] = _unquoted(value.strip())
    return found


def require_own_consumer(scenario: Scenario, *, on: ClusterSettings | KafkaSettings) -> None:
    """Reject a consumer that the target cannot honour, before anything starts."""
    consumer = scenario.consumer
    if consumer.kind != "own" or consumer.manifest is None:
        return
    if isinstance(on, ClusterSettings):
        require_kafka_secret(consumer, on.kafka_secret)
        own_workload(scenario, RunTarget(RunNames("check"), "kafka:9092", on), replicas=1)
        return
    file = Path(consumer.manifest)
    own = read_own_deployment(file, consumer)
    found = own_consumer_as_process(
        own,
        RunTarget(RunNames("check"), "127.0.0.1:9092"),
        consumer,
        replicas=1,
        environment=read_environment(consumer),
        folder=str(file.parent),
        kafka=on,
    )
    _require_command(own, found.workload, file.parent)


def _require_command(own: OwnDeployment, workload: Mapping[str, Any], folder: Path) -> None:
    """Reject a command that this machine lacks; one that the pod's variables name is not known."""
    container = workload["spec"]["template"]["spec"]["containers"][0]
    command = str(container["command"][0])
    has_own_path = any(one["name"] == "PATH" for one in container["env"])
    if "$(" in command or has_own_path:
        return
    places = (str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))
    program = str(folder / command) if "/" in command else command
    if shutil.which(program, path=os.pathsep.join(places)) is None:
        is_ours = not own.container.get("command")
        place = "consumer.command" if is_ours else f"{own.place}.command"
        allowed = f"a program in {folder} (with a slash) or on the PATH of this machine"
        raise own.refuse(place, command, f"{allowed}; build it first if it is to be built")


def own_workload(scenario: Scenario, target: RunTarget, *, replicas: int) -> dict[str, Any]:
    """Return the workload of a scenario's own consumer, as a cluster gets it."""
    consumer = scenario.consumer
    own = read_own_deployment(Path(str(consumer.manifest)), consumer)
    return own_consumer_for_cluster(own, target, consumer, replicas=replicas)


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] in _QUOTES and value[-1] == value[0]
    return value[1:-1] if is_quoted else value
