"""Put a scaling policy into force."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import yaml

from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.adapters.kube.workloads import policy_diff, put_policy, refuse_foreign_policy
from lagbench.adapters.runs.run_manifest import add_versions
from lagbench.catalog.catalog import LEFT_OUT
from lagbench.core.cluster.manifests import lag_scaler_for_run, prometheus_for_run
from lagbench.core.cluster.policy_manifest import (
    asks_lag_scaler,
    asks_prometheus,
    iggy_addresses,
    policy_for_run,
)
from lagbench.core.keda.loop.keda_hpa import autoscaler_version
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.policy.stream_windows import aligned_start_ns
from lagbench.errors import NotReady
from lagbench.results.cell_run import CellRun
from lagbench.results.stopped_run import pods_of
from lagbench_airflow.operators.start_companions import CellOperator, Place

if TYPE_CHECKING:
    from airflow.sdk import Context

START_LEAD_SECONDS = 30.0
"""From placing cron windows to the stream: a policy is taken up, and the producer starts."""

CLUSTER_START_LEAD_SECONDS = 60.0
"""The same on a cluster, where KEDA and the pods of player and producer take longer."""

RECORDER_METRICS_ANNOTATION = "lagbench.io/port-metrics"


class ApplyRunPolicyOperator(CellOperator):
    """Make the run's policy the one that drives the consumers.

    After success: the object matches the policy (server-side apply: nothing of an earlier policy
    is left in it), no policy of the other kind exists, the lag scaler and on the embedded bench
    Prometheus are Ready if a trigger uses them, and the autoscaler has taken up the policy. On
    failure the policy may be in force; the teardown deletes it. An object with the policy's name
    that no run has created stays unchanged, and nothing is applied. A retry is safe.
    """

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Swap the policy and wait for the autoscaler."""
        manifests = [policy.manifest for policy in (cell.policy, *cell.swapped.values())]
        with self.opened(cell) as place:
            is_embedded = place.is_embedded
            refuse_foreign_policy(place.kube, cell.names.policy_object)
            if any(map(asks_lag_scaler, manifests)):  # without an answer KEDA creates no HPA
                addresses = {item for one in manifests for item in iggy_addresses(one)}
                place.apply_companions("lag-scaler", only_on_cluster=False)
                base = base_manifest("lag-scaler", "Deployment")
                place.start(lag_scaler_for_run(base, place.target, iggy_addresses=addresses))
            if is_embedded and any(map(asks_prometheus, manifests)):
                _start_prometheus(place)
            # What a policy needs is there by now: cron windows are placed from this instant on.
            starts_at_ns = _planned_start(cell, is_embedded=is_embedded)
            manifest = policy_for_run(
                cell.policy.manifest,
                place.target,
                is_embedded=is_embedded,
                starts_at_ns=starts_at_ns,
            )
            put = put_policy(place.kube, manifest, cell.policy.limits)
        self.log.info("policy in force, old -> new:\n%s", put.difference or "(no change)")
        lines = cell.folder.read_text(cell.folder.policy).splitlines(keepends=True)
        word = "".join(line for line in lines if line.startswith(LEFT_OUT))
        text = yaml.safe_dump(manifest, sort_keys=False)
        cell.folder.write_text(cell.folder.policy, word + text)
        of_run = policy_diff(cell.policy.manifest, manifest, ("your file", "in this run"))
        cell.folder.write_text("policy.diff", f"{word}{of_run}\n{put.difference}")
        hpa = dict(put.hpa)
        add_versions(cell.folder, autoscaler_version(manifest, hpa, is_embedded=is_embedded))
        del hpa["metadata"]
        cell.folder.write_json("hpa.json", hpa)
        return {
            "kind": manifest["kind"],
            "generation": put.generation,
            "hpa": hpa["name"],
            "diff": put.difference,
        }


def _planned_start(cell: CellRun, *, is_embedded: bool) -> int | None:
    """Return the start of the stream that the cron windows of its policies need; None: no windows.

    It is noted in the manifest when the first group's policy is placed, and the second group's is
    placed at the same; a retry keeps it while it can still be met.
    """
    noted: int | None = cell.noted("stream_planned_at")
    if cell.names.is_second:
        return noted
    windows = tuple(window for group in cell.groups for window in group.policy.windows)
    if not windows:
        return None
    lead = START_LEAD_SECONDS if is_embedded else CLUSTER_START_LEAD_SECONDS
    earliest_ns = time.time_ns() + round(lead * len(cell.groups) * NANOSECONDS)
    if noted is not None and noted >= earliest_ns:
        return noted
    planned = aligned_start_ns(windows, earliest_ns)
    cell.update_manifest(stream_planned_at=planned)
    return planned


def _start_prometheus(place: Place) -> None:
    """Run Prometheus on the recorder's metrics; localkube notes the port of each pod's ports."""
    names = place.target.names
    recorders = pods_of(place.kube, names.run_id, names.recorder)
    if not recorders:
        raise NotReady("the recorder has no pod: Prometheus would have nothing to scrape")
    address = (recorders[0].get("status") or {})["podIP"]
    port = recorders[0]["metadata"]["annotations"][RECORDER_METRICS_ANNOTATION]
    place.apply_companions("prometheus", only_on_cluster=False)
    base = base_manifest("prometheus", "Deployment")
    place.start(prometheus_for_run(base, place.target, scraped_address=f"{address}:{port}"))
