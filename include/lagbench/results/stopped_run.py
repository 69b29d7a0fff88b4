"""Stop the workloads of a run in order, and keep the last that they and the autoscaler say."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kube.kube import Kube, Manifest
from lagbench.adapters.kube.workloads import leaving_seconds, logs_of_pod
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.cluster.manifests import is_foreign
from lagbench.core.cluster.policy_manifest import POLICY_KINDS
from lagbench.core.scenario.consumer_kinds import kind_of
from lagbench.core.scenario.run_names import RUN_ID_LABEL
from lagbench.errors import NotReady
from lagbench.results.cell_run import CellRun

log = logging.getLogger(__name__)

# A killed pod's transaction ends after its own 30 s; the broker checks every 10 s.
OPEN_TRANSACTIONS_SECONDS = 90.0


def stop_scaling(kube: Kube, cell: CellRun) -> None:
    """Stop the player of actions, then remove the policies; keep the autoscaler's last status."""
    if cell.scenario.actions:
        # The player first, which undoes and reports what still lasts: a swap would put a policy in
        # force again.
        player = cell.names.actions_job
        collect_pod_logs(kube, cell.folder, owner=player)
        if kube.delete("Job", player):
            wait_pods_gone(kube, cell.names.run_id, player)
    # Then the policy: its scaling from here on would be in no measure.
    for group in cell.groups:
        with unless_full():
            keep_autoscaler_status(kube, group)
        for kind in POLICY_KINDS:  # of its name; one that no run has created stays
            found = kube.get(kind, group.names.policy_object)
            if found is not None and not is_foreign(found):
                kube.delete(kind, group.names.policy_object)


def stop_workloads(kube: Kube, cell: CellRun) -> None:
    """Stop producer, consumers and recorder of all groups; keep the logs."""
    groups = cell.groups
    with unless_full():
        collect_pod_logs(kube, cell.folder)
    kube.delete("Job", cell.names.producer_job)
    helpers = [(group, kind_of(group.scenario.consumer.kind)) for group in groups]
    for group, kind in helpers:
        _remove_each(kube, group, kind.after)
    for group in groups:
        kube.delete(group.scenario.consumer.workload, group.names.consumers)
    for group in groups:
        wait_pods_gone(kube, cell.names.run_id, group.names.consumers)
    for group, kind in helpers:
        _remove_each(kube, group, kind.before)
    wait_pods_gone(kube, cell.names.run_id, cell.names.producer_job)
    for group in groups:
        kube.delete("Deployment", group.names.recorder)
    for group in groups:
        wait_pods_gone(kube, cell.names.run_id, group.names.recorder)


def await_transactions_over(admin: KafkaAdmin, topic: str) -> None:
    """Wait until no transaction is open in ``topic``."""
    give_up_at, pause = time.monotonic() + OPEN_TRANSACTIONS_SECONDS, threading.Event()
    while True:
        readable, ends = admin.committed_end_offsets(topic), admin.end_offsets(topic)
        open_in = sorted(partition for partition, end in ends.items() if readable[partition] < end)
        if not open_in:
            return
        if time.monotonic() > give_up_at:
            raise NotReady(
                f"partitions {open_in} of {topic} have had an open transaction for more than "
                f"{OPEN_TRANSACTIONS_SECONDS:g} s; the records after it cannot be read"
            )
        pause.wait(1.0)


@contextmanager
def unless_full() -> Iterator[None]:
    """Go on if the disk is full: what only explains a run may lack, and its fence may not."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        log.warning("not written, the disk is full: %s", error)


def _remove_each(kube: Kube, cell: CellRun, helpers: Iterable[str]) -> None:
    """Delete what a kind of consumer runs beside its pods, one after the other."""
    for helper in helpers:
        kube.delete("Deployment", helper)
        wait_pods_gone(kube, cell.names.run_id, helper)


def collect_pod_logs(kube: Kube, folder: RunFolder, *, owner: str = "") -> None:
    """Save the logs so far of the run's pods, or of ``owner``'s, those that are there."""
    for pod in pods_of(kube, folder.run_id, owner):
        for name, text in logs_of_pod(kube, pod).items():
            folder.write_text(folder.logs / f"{name}.log", text)


def keep_autoscaler_status(kube: Kube, group: CellRun) -> None:
    """Write the last status of KEDA and the HPA for the group's consumers.

    A retry finds the policy deleted and leaves the file as it is.
    """
    found = {
        kind: {
            str(item["metadata"]["name"]): {
                "spec": item.get("spec") or {},
                "status": item.get("status") or {},
            }
            for item in kube.list(kind)
            if (item["spec"].get("scaleTargetRef") or {}).get("name") == group.names.consumers
        }
        for kind in POLICY_KINDS
    }
    if any(found.values()):
        group.folder.write_json(group.folder.autoscaler, found)


def wait_pods_gone(kube: Kube, run_id: str, owner: str) -> None:
    """Wait until no pod of the run and ``owner`` is left, as long as they may take."""
    left: list[str] = []
    within_seconds = leaving_seconds(pods_of(kube, run_id, owner))

    def are_gone(kube: Kube) -> bool:
        left[:] = [pod["metadata"]["name"] for pod in pods_of(kube, run_id, owner)]
        return not left

    kube.wait_until(
        are_gone,
        timeout_seconds=within_seconds,
        what=f"the pods of {owner} to be deleted",
        last_seen=lambda: ", ".join(left),
    )


def pods_of(kube: Kube, run_id: str, owner: str = "") -> list[Manifest]:
    """Return the pods of a run, or those of its workload ``owner``."""
    pods = kube.list("Pod", label_selector=f"{RUN_ID_LABEL}={run_id}")
    begin = owner and f"{owner}-"
    return [pod for pod in pods if str(pod["metadata"]["name"]).startswith(begin)]
