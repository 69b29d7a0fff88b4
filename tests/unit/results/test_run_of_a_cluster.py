"""The same run as a cluster would report it: the chain of its reaction, and the clocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace
from tests.fakes.group_story import watched_step
from tests.fakes.run_folder_builder import EPOCH, RunContent, quick_spike_run
from tests.fakes.telemetry import of

from lagbench.core.clocks import API_SERVER
from lagbench.core.hpa.controller_flags import KUBERNETES_ANNOTATION
from lagbench.core.measures.measures import Measures
from lagbench.core.telemetry.records_of_programs import HpaSync, KedaPoll, Record, Scaled
from lagbench.core.telemetry.records_of_recorder import (
    ClockOffset,
    HpaSample,
    PodSeen,
)
from lagbench.results.measure_run import measure_run
from lagbench.results.read_run import read_policy

SECOND, MILLISECOND = 1_000_000_000, 1_000_000

WATCH_NS = 5 * MILLISECOND


def on_cluster(content: RunContent) -> RunContent:
    """Return the same run without what only the embedded bench tells."""
    content.manifest["fidelity"] = "kubernetes"
    content.records = sorted(
        (reported for record in content.records for reported in as_reported(record)),
        key=lambda record: record.at,
    )
    return content


@pytest.mark.parametrize(
    ("fidelity", "cluster", "named", "version"),
    [
        ("kubernetes", "v1.36.2", "1.37", "1.36"),
        ("processes", "v1.34.0+localkube", None, "1.34"),
        ("processes", "v1.34.0+localkube", "1.37", "1.37"),
        ("processes", "v1.37.0+localkube", "1.34", "1.34"),
    ],
)
def test_a_run_is_read_by_the_version_that_scaled_it(
    tmp_path: Path, fidelity: str, cluster: str, named: str | None, version: str
) -> None:
    """That of a cluster; on the embedded bench that of the policy, else the bench's of that day."""
    content = quick_spike_run()
    content.manifest |= {"fidelity": fidelity, "cluster": {"kubernetes": cluster}}
    folder = content.write(tmp_path)
    policy = yaml.safe_load(folder.read_text(folder.policy))
    if named is not None:
        policy["metadata"]["annotations"] = {KUBERNETES_ANNOTATION: named}
    folder.write_text(folder.policy, yaml.safe_dump(policy))

    assert read_policy(folder).limits.flags.version == version


def as_reported(record: Any) -> list[Record]:
    """Return what a cluster's recorder would say instead of ``record``."""
    if isinstance(record, KedaPoll):
        return []
    if isinstance(record, Scaled):
        return [
            watched_step(
                (record.at + WATCH_NS) / SECOND,
                record.replicas_before,
                record.replicas_after,
                "kube-controller-manager",
            )
        ]
    if isinstance(record, HpaSync):
        status = {name: value for name, value in record.metrics.items() if value is not None}
        shown = {"desired": record.desired, "current": record.status_replicas, "totals": status}
        return [of(HpaSample, at=record.at + 4 * WATCH_NS, name=record.hpa, **shown)]
    if isinstance(record, PodSeen):
        ready_at = None if record.deleted_at is not None else whole(record.ready_at)
        return [
            replace(
                record,
                created_at=whole(record.created_at),
                ready_at=ready_at,
                precision_ns=SECOND,
            )
        ]
    return [record]


def whole(at: int | None) -> int | None:
    """Return the whole second of an instant."""
    return None if at is None else at // SECOND * SECOND


def clock(name: str, pods: list[str]) -> ClockOffset:
    """Return a clock within 4 ms of the recorder's."""
    bound = {"low_ns": -4 * MILLISECOND, "high_ns": 3 * MILLISECOND, "since_at": EPOCH}
    return of(ClockOffset, at=EPOCH, clock=name, pods=pods, answers=20, **bound)


def measured(content: RunContent, folder: Path) -> Measures:
    """Return the measures of a run."""
    return measure_run(content.write(folder))


def test_the_chain_of_a_cluster_agrees_with_the_exact_one(tmp_path: Path) -> None:
    """Link by link the exact instant is within the precision that the cluster's link states."""
    exact = measured(quick_spike_run(), tmp_path / "exact").reaction
    content = on_cluster(quick_spike_run())
    pods = sorted({r.pod for r in content.records if isinstance(r, PodSeen)})
    content.records += [clock(API_SERVER, []), clock("node-1", [*pods, "producer-0"])]

    found = measured(content, tmp_path / "cluster").reaction

    assert found.is_complete, found.reason
    assert found.parts_sum_to_total
    assert found.pod == exact.pod
    for link, truth in zip(found.links, exact.links, strict=True):
        assert link.at is not None
        assert truth.at is not None
        assert link.precision_seconds is not None, link.name
        within = link.precision_seconds + (truth.precision_seconds or 0)
        assert abs(link.at - truth.at) / SECOND <= within, link.name
    assert found.clocks is not None
    for named in ("API server -0.004 to +0.003 s", "node-1 -0.004 to +0.003 s"):
        assert named in found.clocks.text
