"""Rehearsals on the rig as a platform team runs them: the runner's rights, a broker of its own.

``python -m tests.cluster.cluster_rehearsal SCENARIO [OPTIONS…]`` brings the rig up, runs
``lagbench run SCENARIO OPTIONS…`` there and goes; run folders land where they usually do.
``… cluster_rehearsal experiment NAME [OPTIONS…]`` runs the pairs of an experiment there, and with
the same ``--folder`` continues. ``KUBERNETES=1.37`` in the environment chooses the version.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from lagbench.adapters.clean_up import ON_A_CLUSTER
from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kube.kube import Kube, Manifest
from lagbench.adapters.kube.workloads import WORKLOADS
from lagbench.catalog.catalog import checked_cell
from lagbench.catalog.experiments import load_experiment
from lagbench.core.cluster.lease import LEASE
from lagbench.core.scenario.run_names import LAG_SCALER, NAMESPACE, RUN_ID_LABEL
from lagbench.embedded.broker import Broker
from lagbench.project import PROJECT_ROOT
from tests.cluster.rig.binaries import build_all
from tests.cluster.rig.network import enter, is_inside, problem
from tests.cluster.rig.rig import Rig
from tests.cluster.rig_fixture import broker_for_pods
from tests.e2e.rehearsal import Rehearsal
from tests.fakes.migrated_database import give_database

CONTEXT = "lagbench"
_KUBECTL_LIMIT_SECONDS = 180
_HOSTS = Path("/etc/hosts")
_SERVICE_POLL_SECONDS = 0.5  # its pod takes longer to be Ready, and KEDA asks only then


@dataclass
class ClusterRehearsal(Rehearsal):
    """A ``lagbench`` home whose runs go to the rig, with the rights of the account ``runner``."""

    kubeconfig: Path = Path()
    settings: Path = Path()

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment with the runner's kubeconfig."""
        return {**super().environment, "KUBECONFIG": str(self.kubeconfig)}

    @property
    def target_options(self) -> tuple[str, ...]:
        """Return the options that send a run to the rig."""
        return ("--target", f"context:{CONTEXT}", "--target-settings", str(self.settings))

    def finish_files(self, scenario: Path, policy: Path, *settings: str) -> int:
        """Run a scenario on the rig; return the exit code."""
        process = self.start_files(scenario, policy, *settings, options=self.target_options)
        return self.finish(process)


def stand_up(
    rig: Rig, folder: Path, bootstrap_servers: str, *, namespace: str = "lagbench"
) -> Path:
    """Apply the overlay ``ci`` and write the runner's kubeconfig and the target's settings."""
    kubectl(rig, "apply", "--server-side", "-k", str(PROJECT_ROOT / "k8s/overlays/ci"))
    kubeconfig = folder / "runner.kubeconfig"
    script = PROJECT_ROOT / "k8s" / "runner-kubeconfig.sh"
    context = kubectl(rig, "config", "current-context").strip()
    asked(rig, [str(script), context, namespace, str(kubeconfig)])
    (folder / "settings.env").write_text(
        f"NAMESPACE={namespace}\nSTORAGE_CLASS=none\nKAFKA_BOOTSTRAP_SERVERS={bootstrap_servers}\n"
    )
    return kubeconfig


@contextmanager
def rehearsal_on(rig: Rig, broker: Broker, root: Path) -> Iterator[ClusterRehearsal]:
    """Provide a home whose runs go to the rig; end what a failed test left."""
    kubeconfig = stand_up(rig, root, broker.bootstrap_servers)
    give_database(root / "state")
    home = ClusterRehearsal(root, kubeconfig=kubeconfig, settings=root / "settings.env")
    yield home
    home.close()
    kubectl(rig, "-n", NAMESPACE, "delete", "lease", LEASE, "--ignore-not-found")


@contextmanager
def users_code(rig: Rig, file: Path) -> Iterator[None]:
    """Put the code of a user's consumer where its manifest reads it, a ConfigMap, for a while."""
    place = ("configmap", "orders-code")
    kubectl(rig, "-n", NAMESPACE, "create", *place, f"--from-file={file}")
    try:
        yield
    finally:
        kubectl(rig, "-n", NAMESPACE, "delete", *place)


def left_behind(rig: Rig, broker: Broker, home: ClusterRehearsal) -> list[str]:
    """Name what the newest run has left: objects, the Lease, topics, groups, processes."""
    kinds = (*WORKLOADS, *ON_A_CLUSTER, "Pod", "ScaledObject", "HorizontalPodAutoscaler")
    with closing(Kube.from_kubeconfig(str(rig.kubeconfig))) as kube:
        left = [
            f"{kind}/{found['metadata']['name']}"
            for kind in kinds
            for found in kube.list(kind, label_selector=RUN_ID_LABEL)
        ]
    left += kubectl(rig, "-n", NAMESPACE, "get", "leases", "-o=name").split()
    with KafkaAdmin(broker.bootstrap_servers) as admin:
        names = [*admin.topic_names(), *admin.group_ids()]
    left += [name for name in names if home.folder().name in name]
    return left + [" ".join(process.cmdline()) for process in home.processes()]


def documented_role(page: str) -> Manifest:
    """Return the Role that a page of the docs shows."""
    text = (PROJECT_ROOT / "docs" / page).read_text()
    (block,) = re.findall(r"```yaml\n(apiVersion: rbac.*?)```", text, re.DOTALL)
    role: Manifest = yaml.safe_load(block)
    return role


def account_of(rig: Rig, namespace: str, role: Manifest, path: Path) -> Path:
    """Create an account with the rights of the Role alone, of its name; write its kubeconfig."""
    account = role["metadata"]["name"]
    place = ("-n", namespace)
    asked(rig, [rig.kubectl, *place, "apply", "-f", "-"], given=yaml.safe_dump(role))
    kubectl(rig, *place, "create", "serviceaccount", account)
    to = (f"--role={account}", f"--serviceaccount={namespace}:{account}")
    kubectl(rig, *place, "create", "rolebinding", account, *to)
    return kubeconfig_of(rig, namespace, account, path)


def kubeconfig_of(rig: Rig, namespace: str, account: str, path: Path) -> Path:
    """Write a kubeconfig with a token of the account, whose context is ``CONTEXT``."""
    token = kubectl(rig, "-n", namespace, "create", "token", account).strip()
    config = yaml.safe_load(rig.kubeconfig.read_text())
    config["users"] = [{"name": account, "user": {"token": token}}]
    cluster = config["clusters"][0]["name"]
    context = {"cluster": cluster, "user": account, "namespace": namespace}
    config["contexts"] = [{"name": CONTEXT, "context": context}]
    config["current-context"] = CONTEXT
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o600)
    return path


def kubectl(rig: Rig, *arguments: str) -> str:
    """Run kubectl as the administrator; return what it printed."""
    return asked(rig, [rig.kubectl, *arguments]).stdout


def asked(
    rig: Rig, command: list[str], *, given: str = "", code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a command that finds the cluster and its kubectl; it must end with ``code``."""
    environment = {
        **os.environ,
        "KUBECONFIG": str(rig.kubeconfig),
        "PATH": f"{rig.binaries.folder}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        command,
        env=environment,
        input=given,
        check=False,
        capture_output=True,
        text=True,
        timeout=_KUBECTL_LIMIT_SECONDS,
    )
    if done.returncode != code:
        said = done.stderr[-2000:]
        raise AssertionError(f"{' '.join(command)} gave {done.returncode}:\n{said}")
    return done


@contextmanager
def lag_scaler_has_a_name(rig: Rig, folder: Path) -> Iterator[None]:
    """Let KEDA find the lag scaler, for want of DNS: its Service's address is written as it comes.

    KEDA is a process of this mount namespace here, so that it reads this file of hosts. Each run
    has a Service of its own: one that is there before would be somebody else's, and rejected.
    """
    hosts = folder / "hosts"
    hosts.write_text(_HOSTS.read_text())
    subprocess.run(["mount", "--bind", str(hosts), str(_HOSTS)], check=True, timeout=60)
    is_over = threading.Event()
    writer = threading.Thread(target=_write_address, args=(rig, hosts, is_over))
    writer.start()
    try:
        yield
    finally:
        is_over.set()
        writer.join(timeout=_SERVICE_POLL_SECONDS + 60)
        subprocess.run(["umount", str(_HOSTS)], check=True, timeout=60)


def _write_address(rig: Rig, hosts: Path, is_over: threading.Event) -> None:
    known, written = hosts.read_text(), ""
    with closing(Kube.from_kubeconfig(str(rig.kubeconfig), patience_seconds=60)) as kube:
        while not is_over.wait(_SERVICE_POLL_SECONDS):
            service = kube.get("Service", LAG_SCALER)
            address = "" if service is None else service["spec"].get("clusterIP", "")
            if address and address != written:  # in place: another file is not the mounted one
                hosts.write_text(f"{known}\n{address} {LAG_SCALER}.{NAMESPACE}\n")
                written = address


def main(arguments: list[str]) -> int:
    """Run one rehearsal or experiment on a rig; returns the command's exit code."""
    if not is_inside():
        reason = problem()
        if reason is not None:
            sys.stderr.write(f"not ready: {reason}\n")
            return 3
        build_all(lambda line: sys.stderr.write(f"{line}\n"))
        enter([sys.executable, "-m", "tests.cluster.cluster_rehearsal", *arguments])
    if arguments[0] == "experiment":
        scenario, command = load_experiment(arguments[1]).scenario, arguments
    else:
        scenario, command = arguments[0], ["run", *arguments]
    with tempfile.TemporaryDirectory(prefix="lagbench-rig-") as name:
        folder = Path(name)
        rig = Rig.up(folder / "rig", build_all(lambda line: sys.stderr.write(f"{line}\n")))
        try:
            rig.import_programs()
            if checked_cell(scenario).scenario.consumer.kind == "spark":
                rig.import_spark()
            with broker_for_pods(folder / "broker") as broker:
                kubeconfig = stand_up(rig, folder, broker.bootstrap_servers)
                options = ["--target", f"context:{CONTEXT}"]
                options += ["--target-settings", str(folder / "settings.env")]
                lagbench = str(Path(sys.executable).parent / "lagbench")
                environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
                with lag_scaler_has_a_name(rig, folder):
                    return subprocess.call([lagbench, *command, *options], env=environment)
        finally:
            rig.down()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
