"""Find the target of a rehearsal: the embedded bench, or a cluster named by a kubeconfig context.

A cluster's settings are in a file of ``KEY=VALUE`` lines, which its overlay also reads.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import psutil

from lagbench.adapters.clean_up import clear_cluster
from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kube.cluster_check import check_cluster, ready_namespace
from lagbench.adapters.kube.cluster_lease import HOLDER_VARIABLE, stored_holder
from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.kube_client import OUTAGE_SECONDS, known_contexts, written_token
from lagbench.adapters.kube.workloads import require_admitted
from lagbench.catalog.catalog import Cell
from lagbench.catalog.own_consumers import own_workload, require_own_consumer
from lagbench.catalog.strict_yaml import read_text
from lagbench.core.cluster import cluster_settings as of_cluster
from lagbench.core.cluster.cluster_settings import EMBEDDED, ClusterSettings, cluster_settings
from lagbench.core.cluster.manifests import RunTarget
from lagbench.core.cluster.policy_manifest import (
    refuse_kind_on_cluster,
    refuse_on_cluster,
    refuse_without_own_broker,
    rights_of_run,
)
from lagbench.core.kubernetes_values import NS_PER_SECOND, format_instant, token_end_seconds
from lagbench.core.policy.policy import (
    require_kafka_log_in,
    require_kubernetes,
    require_own_controller,
)
from lagbench.core.scenario.consumer_kinds import KindName
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream_start import require_known_hpa
from lagbench.core.simulation.spark_needs import check_spark_fit
from lagbench.embedded import bench
from lagbench.embedded.doctor import require_prometheus
from lagbench.embedded.kafka_choice import CONNECTION_VARIABLE
from lagbench.embedded.spark_packages import spark_environment
from lagbench.errors import NotReady, WrongInput
from lagbench.project import PROJECT_ROOT, STATE_VARIABLE, state_dir
from lagbench.shared_with_spark.kafka_options import java_options
from pod_program.kafka_config import CONFIG_VARIABLE
from pod_program.kafka_settings import own_settings, read_settings
from pod_program.shown import HIDDEN

KIND = "kind"
CONTEXT_PREFIX = "context:"
CONTEXT_ADVICE = "Correct --target, or KUBECONFIG"
KUBERNETES_VARIABLE = "AIRFLOW_CONN_KUBERNETES_DEFAULT"
OVERLAYS = PROJECT_ROOT / "k8s" / "overlays"

_FIELD_OF_KEY = {
    "NAMESPACE": of_cluster.NAMESPACE_FIELD,
    "IMAGE": of_cluster.IMAGE_FIELD,
    "SPARK_IMAGE": of_cluster.SPARK_IMAGE_FIELD,
    "IMAGE_PULL_SECRET": of_cluster.PULL_SECRET_FIELD,
    "KAFKA_BOOTSTRAP_SERVERS": of_cluster.SERVERS_FIELD,
    "KAFKA_REPLICATION_FACTOR": of_cluster.REPLICATION_FIELD,
    "STORAGE_CLASS": of_cluster.STORAGE_CLASS_FIELD,
    "METRIC_ALIASES": of_cluster.ALIASES_FIELD,
    "KAFKA_SECRET": of_cluster.KAFKA_SETTINGS_FIELD,
}
_AIRFLOWS_SERVERS = "AIRFLOW_KAFKA_BOOTSTRAP_SERVERS"
_AIRFLOWS_CONFIG = "AIRFLOW_KAFKA_CONFIG"
"""A file of librdkafka's settings for Airflow's tasks; the pods have the same from a Secret."""

_KEYS = (*_FIELD_OF_KEY, _AIRFLOWS_SERVERS, _AIRFLOWS_CONFIG)


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """A cluster, and the access of Airflow's tasks to it and its Kafka."""

    name: str
    kubeconfig: str | None
    context: str | None
    fields: Mapping[str, str]
    bootstrap_servers: str
    kafka_config: str | None = None

    def connections(self) -> dict[str, str]:
        """Return the environment that connects Airflow and its tasks to the cluster."""
        kubernetes = dict(self.fields)
        if self.kubeconfig is not None:
            kubernetes["kube_config_path"] = self.kubeconfig
        if self.context is not None:
            kubernetes["cluster_context"] = self.context
        kafka = own_settings(self.bootstrap_servers, self._config())
        return {
            **self._config(),
            CONNECTION_VARIABLE: json.dumps({"conn_type": "kafka", "extra": kafka}),
            KUBERNETES_VARIABLE: json.dumps({"conn_type": "kubernetes", "extra": kubernetes}),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            STATE_VARIABLE: str(state_dir()),
            HOLDER_VARIABLE: stored_holder(state_dir()),
            **spark_environment(),
        }

    def check(
        self,
        policies: Sequence[Mapping[str, Any]] = (),
        kinds: Collection[KindName] = (),
        *,
        has_second_group: bool = False,
        has_actions: bool = True,
    ) -> None:
        """Reject, before Airflow starts, a cluster or a Kafka that a run cannot work with.

        :param policies: the run's; empty if they are chosen later.
        :param kinds: of the run's consumers; empty likewise.
        """
        if self.kafka_config is not None:
            _require_spark_can_read(Path(self.kafka_config))
        rights = rights_of_run(self.settings(), policies, kinds)
        self.require_log_in()
        with self.open_kube() as kube:
            check_cluster(
                kube,
                rights,
                holder=stored_holder(state_dir()),
                has_second_group=has_second_group,
                has_actions=has_actions,
                policies=policies,
            )
            ready_namespace(kube)
        with self._open_admin() as admin:
            admin.check_reachable()

    def kubernetes(self) -> str:
        """Return the version of the API server."""
        with self.open_kube() as kube:
            return kube.server_version()

    def require_log_in(self, *, for_seconds: float = 0.0) -> None:
        """Reject a token that ends within ``for_seconds``: no verdict, no clean-up after it."""
        token = written_token(self.kubeconfig, self.context, advice=CONTEXT_ADVICE)
        end, now = None if token is None else token_end_seconds(token), time.time()
        if end is None or end > now + for_seconds:
            return
        at = format_instant(round(end) * NS_PER_SECOND)
        why = f"ends at {at}, and a run may take {for_seconds / 60:.0f} minutes from now"
        raise NotReady(
            f"the token of {self.name} {why if end > now else f'ended at {at}'}. Write a new "
            "kubeconfig: k8s/runner-kubeconfig.sh (LAGBENCH_TOKEN_DURATION), or log in again"
        )

    def check_own_consumer(self, scenario: Scenario) -> None:
        """Reject a user's Deployment that the cluster would reject, before Airflow starts.

        Other consumers are lagbench's own: the cluster's checks know them.
        """
        if scenario.consumer.kind != "own":
            return
        settings = self.settings()
        servers = settings.bootstrap_servers or self.bootstrap_servers
        target = RunTarget(RunNames("trial"), servers, settings)
        workload = own_workload(scenario, target, replicas=1)
        with self.open_kube() as kube:
            require_admitted(kube, workload, where=str(scenario.consumer.manifest))

    def clean_up(self, say: Callable[[str], None]) -> None:
        """Remove leftovers of ended runs from the cluster and from Kafka."""
        holder = stored_holder(state_dir())
        with self.open_kube(patience_seconds=OUTAGE_SECONDS) as kube, self._open_admin() as admin:
            clear_cluster(kube, admin, say, holder=holder, run_id="lagbench-down")

    def settings(self) -> ClusterSettings:
        """Return the settings of the cluster for the pods and topics of a run."""
        return cluster_settings(self.fields, where=f"target {self.name}")

    def open_kube(self, *, patience_seconds: float = 0.0) -> contextlib.closing[Kube]:
        """Return a client of the target's namespace, to be closed; it sends no request yet.

        Each call waits up to ``patience_seconds`` for an unreachable API server.
        """
        return contextlib.closing(
            Kube.from_kubeconfig(
                self.kubeconfig,
                context=self.context,
                namespace=self.settings().namespace,
                patience_seconds=patience_seconds,
            )
        )

    def _open_admin(self) -> KafkaAdmin:
        return KafkaAdmin(own_settings(self.bootstrap_servers, self._config()))

    def _config(self) -> dict[str, str]:
        return {} if self.kafka_config is None else {CONFIG_VARIABLE: self.kafka_config}


def find_target(name: str, settings_file: Path | None) -> ClusterTarget | None:
    """Return the cluster of the target ``name``, None for the embedded bench."""
    if name == EMBEDDED:
        if settings_file is not None:
            _refuse("--target-settings", str(settings_file), "only with a cluster as --target")
        return None
    require_known_sort(name)
    for variable in (KUBERNETES_VARIABLE, CONNECTION_VARIABLE):
        if variable in os.environ:
            allowed = f"no value: --target {name} sets it; unset it"
            _refuse(variable, "(hidden)", allowed, where="environment")
    overlay = KIND if name == KIND else "context"
    default_file = OVERLAYS / overlay / "settings" / "settings.env"
    given = _read_settings(settings_file or default_file)
    file = str(settings_file or default_file.relative_to(PROJECT_ROOT))
    fields = {field: given[key] for key, field in _FIELD_OF_KEY.items() if given.get(key)}
    settings = cluster_settings(fields, where=file)
    servers = given.get(_AIRFLOWS_SERVERS) or settings.bootstrap_servers
    if servers is None:
        _refuse("KAFKA_BOOTSTRAP_SERVERS", "", "host:port of the Kafka of the pods", where=file)
    config = _kafka_config(given, file)
    kubeconfig, context, _ = access_of(name)
    return ClusterTarget(name, kubeconfig, context, fields, str(servers), config)


def require_known_sort(name: str) -> None:
    """Reject all but names of clusters and of the embedded bench."""
    if name in (EMBEDDED, KIND) or name.removeprefix(CONTEXT_PREFIX).strip() not in ("", name):
        return
    if name.startswith(CONTEXT_PREFIX) or not name.strip():
        _refuse("--target", name, "context:NAME with the name of a kubeconfig context")
    _refuse("--target", name, f"{EMBEDDED}, {KIND} or {CONTEXT_PREFIX}NAME")


def access_of(name: str) -> tuple[str | None, str | None, str | None]:
    """Return kubeconfig, context and the context's namespace of a cluster (of kind: None).

    KUBECONFIG gets absolute paths: Airflow's tasks run in their own folders.
    """
    if name == KIND:
        own = state_dir() / "kind.kubeconfig"
        if not own.is_file():
            raise NotReady(f"there is no kind cluster of the bench ({own}): make kind")
        return str(own), None, None
    context = name.removeprefix(CONTEXT_PREFIX).strip()
    parts = filter(None, os.environ.get("KUBECONFIG", "").split(os.pathsep))
    kubeconfig = os.pathsep.join(str(Path(part).absolute()) for part in parts) or None
    known = known_contexts(kubeconfig, advice=CONTEXT_ADVICE)
    if context not in known:
        close = get_close_matches(context, known, n=1, cutoff=0.5)
        hint = f"did you mean {CONTEXT_PREFIX}{close[0]}? " if close else ""
        names = ", ".join(f"{CONTEXT_PREFIX}{one}" for one in sorted(known))
        allowed = f"{hint}a context of the kubeconfig: {names or 'none is there'}"
        _refuse("--target", f"{CONTEXT_PREFIX}{context}", allowed)
    return kubeconfig, context, known[context] or "default"


def _kafka_config(given: Mapping[str, str], file: str) -> str | None:
    """Return the file with the settings of Airflow's Kafka clients, checked; None: plain text."""
    path, secret = given.get(_AIRFLOWS_CONFIG), given.get("KAFKA_SECRET")
    if not path and not secret:
        return None
    if not path or not secret:
        both = f"KAFKA_SECRET and {_AIRFLOWS_CONFIG} together: pods and Airflow's tasks need both"
        _refuse("KAFKA_SECRET" if path else _AIRFLOWS_CONFIG, "", both, where=file)
    read_settings(Path(path).expanduser())
    return str(Path(path).expanduser().absolute())


def _read_settings(path: Path) -> dict[str, str]:
    try:
        text = read_text(path)
    except WrongInput as error:
        _refuse("--target-settings", str(path), error.allowed)
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, sign, value = line.partition("=")
        if not sign or key.strip() not in _KEYS:
            allowed = f"KEY=VALUE with one of {', '.join(_KEYS)}"
            _refuse(f"line {number}", line.strip(), allowed, where=str(path))
        found[key.strip()] = value.strip()
    return found


def _refuse(field: str, value: str, allowed: str, *, where: str = "target") -> NoReturn:
    raise WrongInput(where=where, field=field, value=value, allowed=allowed)


def refuse_elsewhere(cell: Cell, *, is_embedded: bool) -> None:
    """Reject what no cluster can run as it is meant."""
    require_known_hpa(cell.scenario, is_embedded=is_embedded)
    for name, policy in cell.policies:
        require_own_controller(policy, where=name, is_embedded=is_embedded)
        if is_embedded:
            require_kubernetes(policy)
    if not is_embedded:
        refuse_on_cluster(cell.scenario)


def require_playable(cell: Cell, cluster: ClusterSettings | None, state_dir: Path) -> None:
    """Reject what the bench, or the cluster, cannot run as it is meant.

    :param cluster: None: the embedded bench.
    """
    refuse_elsewhere(cell, is_embedded=cluster is None)
    on = bench.kafka_settings(state_dir) if cluster is None else cluster
    require_own_consumer(cell.scenario, on=on)
    if cluster is None:
        free = psutil.virtual_memory().available // 2**20
        check_spark_fit(cell.scenario, cell.policy, memory_mebibytes=free)
        if not bench.has_own_broker(state_dir):
            refuse_without_own_broker(cell.scenario)
    else:
        refuse_kind_on_cluster(cell.scenario, cluster)
    for name, policy in cell.policies:
        if cluster is None:
            require_prometheus(policy.manifest, where=name)
        elif cluster.kafka_secret:
            require_kafka_log_in(policy, where=name)


def _require_spark_can_read(path: Path) -> None:
    """Reject a file of settings that the reader of a run's topics on Spark cannot have.

    It uses Kafka's own client, which has no counterpart of some of librdkafka's settings.
    """
    try:
        java_options(read_settings(path))
    except ValueError as error:
        allowed = f"what Spark can have, which accounts for messages: {error}"
        where = str(path)
        raise WrongInput(where=where, field="settings", value=HIDDEN, allowed=allowed) from error
