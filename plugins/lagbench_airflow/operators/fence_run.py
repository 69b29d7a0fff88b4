"""End the measured part of a run and freeze the evidence for its verdict."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from lagbench import project
from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kafka.telemetry_topic import read_records
from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.workloads import logs_of_pod
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.catalog.own_consumers import read_own_deployment
from lagbench.core.cluster.manifests import GRACE_MARGIN_SECONDS, is_foreign
from lagbench.core.cluster.policy_manifest import POLICY_KINDS
from lagbench.core.scenario.consumer_kinds import kind_of
from lagbench.core.telemetry.records_of_programs import ActionEnded
from lagbench.embedded.kept_log import note_fence
from lagbench.errors import NotReady
from lagbench.results.cell_run import CellRun
from lagbench_airflow.operators.start_companions import CellOperator, pods_of

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

HELPER_SECONDS = 60.0
"""For the recorder and the player of actions to leave: their grace of 30 s, and 30 s more."""
SWAPPED = "# swapped by actions."
"""Begins the part of a swap in ``policy.diff``; the number of the action follows."""
# A killed pod's transaction ends after its own 30 s; the broker checks every 10 s.
OPEN_TRANSACTIONS_SECONDS = 90.0
TOPICS = ("events", "processed", "telemetry")


class FenceRunOperator(CellOperator):
    """Stop the workloads of all groups in order, and write ``fence.json`` of each.

    After success: no part of the run writes any more, and ``fence.json`` has the end of every
    topic and the group's committed offsets; the pipeline reads up to there. The order matters: the
    player of actions first, the autoscaler next (it would start pods again), then producer,
    consumers (they shut down gracefully), recorder, and last the transactions that a killed pod has
    left open in the ledger, because nothing behind them can be read. On failure the
    stopped parts stay stopped. A retry repeats the rest and is safe.
    """

    is_of_run = True

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Stop, collect the logs, freeze."""
        groups = cell.groups
        with self.opened(cell) as place:
            _stop_scaling(place.kube, cell)
            _stop_workloads(place.kube, cell)
        if cell.swapped:
            keep_differences(cell, self.bootstrap_servers())
        fences = [self._fence(group) for group in groups]
        if place.is_embedded:
            # First in the bench's own folder: the disk of the run folders may be full.
            of_groups = zip(groups, fences, strict=True)
            noted = {group.folder.reference: fence for group, fence in of_groups}
            note_fence(project.state_dir(), cell.folder, noted)
        for group, fence in zip(groups, fences, strict=True):
            group.folder.write_json(group.folder.fence, fence)
        counted = [{topic: sum(fence[topic].values()) for topic in TOPICS} for fence in fences]
        return counted[0] if cell.second is None else {**counted[0], "second_group": counted[1]}

    def _fence(self, cell: CellRun) -> dict[str, Any]:
        from lagbench_airflow.hooks.kafka import KafkaHook

        hook, names = KafkaHook(self.kafka_conn_id), cell.names
        with hook.get_conn() as admin:
            _await_transactions_over(admin, names.processed_topic)
            ends = {
                short: {str(p): end for p, end in sorted(admin.end_offsets(topic).items())}
                for short, topic in zip(TOPICS, names.topics, strict=True)
            }
        with closing(hook.open_lag_reader(awaits_transactions=True)) as reader:
            lag = reader.offsets(names.group, names.events_topic)
        of_headers = {} if cell.scenario.payload is None else {"identity_run_id": names.run_id}
        level = cell.scenario.consumer.accounting
        return {
            **ends,
            **of_headers,
            **({} if level is None else {"accounting": level}),
            "committed": {str(p): place.committed for p, place in sorted(lag.items())},
            "fenced_at": time.time_ns(),
            "stream_started_at": cell.noted("stream_started_at"),
        }


def _stop_scaling(kube: Kube, cell: CellRun) -> None:
    if cell.scenario.actions:
        # The player first, which undoes and reports what still lasts: a swap would put a policy in
        # force again.
        player = cell.names.actions_job
        collect_pod_logs(kube, cell.folder, owner=player)
        if kube.delete("Job", player):
            wait_pods_gone(kube, cell, player, HELPER_SECONDS)
    # Then the policy: its scaling from here on would be in no measure.
    for group in cell.groups:
        with unless_full():
            keep_autoscaler_status(kube, group)
        for kind in POLICY_KINDS:  # of its name; one that no run has created stays
            found = kube.get(kind, group.names.policy_object)
            if found is not None and not is_foreign(found):
                kube.delete(kind, group.names.policy_object)


def _stop_workloads(kube: Kube, cell: CellRun) -> None:
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
        wait_pods_gone(kube, cell, group.names.consumers, _leaving_seconds(group))
    for group, kind in helpers:
        _remove_each(kube, group, kind.before)
    wait_pods_gone(kube, cell, cell.names.producer_job, 60)
    for group in groups:
        kube.delete("Deployment", group.names.recorder)
    for group in groups:
        wait_pods_gone(kube, cell, group.names.recorder, HELPER_SECONDS)


@contextmanager
def unless_full() -> Iterator[None]:
    """Go on if the disk is full: what only explains a run may lack, and its fence may not."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        log.warning("not written, the disk is full: %s", error)


def _await_transactions_over(admin: KafkaAdmin, topic: str) -> None:
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


def _remove_each(kube: Kube, cell: CellRun, helpers: Iterable[str]) -> None:
    """Delete what a kind of consumer runs beside its pods, one after the other."""
    for helper in helpers:
        kube.delete("Deployment", helper)
        wait_pods_gone(kube, cell, helper, _leaving_seconds(cell))


def _leaving_seconds(cell: CellRun) -> float:
    """Return how long the pods of a group may take to leave."""
    if cell.folder.own_deployment.exists():
        own = read_own_deployment(cell.folder.own_deployment, cell.scenario.consumer)
        return own.grace_seconds + 30.0
    return cell.scenario.consumer.shutdown_timeout_seconds + GRACE_MARGIN_SECONDS + 30


def keep_differences(cell: CellRun, bootstrap_servers: str) -> None:
    """Write the difference of each swap: all in ``policy.diff``, and each in a file of its own."""
    ended = {
        record.number: record
        for record in read_records(bootstrap_servers, cell.names.telemetry_topic)
        if isinstance(record, ActionEnded) and record.number in cell.swapped
    }
    at_start = cell.folder.path / "policy.diff"
    first = cell.folder.read_text(at_start) if at_start.exists() else ""
    parts = [first.partition(SWAPPED)[0].rstrip("\n")]
    for record in sorted(ended.values(), key=lambda record: record.at):
        cell.folder.write_text(f"policy-{record.number}.diff", record.detail)
        parts.append(f"{SWAPPED}{record.number}\n{record.detail}")
    cell.folder.write_text(at_start, "\n".join(part for part in parts if part))


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


def wait_pods_gone(kube: Kube, cell: CellRun, owner: str, timeout_seconds: float) -> None:
    """Wait until no pod of the run and ``owner`` is left."""
    left: list[str] = []

    def are_gone(kube: Kube) -> bool:
        left[:] = [pod["metadata"]["name"] for pod in pods_of(kube, cell.names.run_id, owner)]
        return not left

    kube.wait_until(
        are_gone,
        timeout_seconds=timeout_seconds,
        what=f"the pods of {owner} to be deleted",
        last_seen=lambda: ", ".join(left),
    )
