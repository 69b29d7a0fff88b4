"""Builds the run folder of a quick_spike-like run: same folder, byte for byte, every time.

``quick_spike_run()`` returns a ``RunContent``; a test changes what it wants and calls ``write``.
The tables ``events`` and ``processed`` (one row per message) are left out: neither measures nor
the report read them.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.telemetry.records import encode_record
from lagbench.core.telemetry.records_of_programs import Record
from tests.fakes import spike_records, spike_tables
from tests.fakes.spike_simulation import Outcome, Simulation, SpikeStory

EPOCH = 1_795_262_702_000_000_000
"""The stream's start, 2026-11-21T12:05:02Z."""
RUN_ID = "quick-spike-20261121-120450-7f3a"

INT, REAL, TEXT = pa.int64(), pa.float64(), pa.string()
TABLE_COLUMNS: dict[str, list[tuple[str, pa.DataType]]] = {
    "bad_messages": [
        ("class", TEXT), ("partition", INT), ("offset", INT), ("seq", INT), ("entity_id", INT),
        ("pod", TEXT), ("other_pod", TEXT), ("at", INT), ("cause", TEXT), ("cause_at", INT),
        ("cause_pod", TEXT), ("detail", TEXT),
    ],
    "timeline": [("at", INT), ("offered", INT), ("processed", INT), ("processed_again", INT)],
    "timeline_by_pod": [("at", INT), ("pod", TEXT), ("processed", INT)],
    "partition_gaps": [
        ("partition", INT), ("from_pod", TEXT), ("to_pod", TEXT), ("last_done_at", INT),
        ("next_done_at", INT), ("gap_seconds", REAL),
    ],
    "lag": [("at", INT), ("partition", INT), ("end_offset", INT), ("committed", INT), ("lag", INT)],
    "replicas": [("at", INT), ("spec", INT), ("current", INT), ("ready", INT)],
    "latency": [
        ("at", INT), ("count", INT), ("p50_seconds", REAL), ("p95_seconds", REAL),
        ("p99_seconds", REAL), ("max_seconds", REAL),
    ],
}  # fmt: skip

SCENARIO_YAML = """\
name: quick_spike
description: Ten times the load for a minute; at the peak more pods than partitions can feed.
partitions: 12
keys: {entities: 5000000, zipf_s: 1.1}
profile:
  kind: step
  rate_per_second: 600
  spike_mult: 10
  before_seconds: 20
  spike_hold_seconds: 60
  after_seconds: 220
consumer: {process_ms: 2.0, concurrency: 1, balancer: cooperative-sticky}
policy: lag-fast
seed: 1
slos: {drain_seconds: 120}
"""

POLICY_YAML = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: consumer, namespace: lagbench}
spec:
  scaleTargetRef: {name: consumer}
  pollingInterval: 5
  minReplicaCount: 2
  maxReplicaCount: 12
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleUp:
          stabilizationWindowSeconds: 0
          policies: [{type: Pods, value: 4, periodSeconds: 15}]
        scaleDown:
          stabilizationWindowSeconds: 60
          policies: [{type: Pods, value: 5, periodSeconds: 15}]
  triggers:
    - type: kafka
      metadata:
        bootstrapServers: kafka:9092
        consumerGroup: enrich.quick-spike-20261121-120450-7f3a
        topic: lagbench.quick-spike-20261121-120450-7f3a.events
        lagThreshold: "1000"
"""


@dataclass
class RunContent:
    """The content of a run folder; every field may be changed before ``write``."""

    run_id: str = RUN_ID
    scenario_yaml: str = SCENARIO_YAML
    policy_yaml: str = POLICY_YAML
    manifest: dict[str, Any] = field(default_factory=dict)
    fence: dict[str, Any] = field(default_factory=dict)
    accounting: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)  # rows, column order
    records: list[Record] = field(default_factory=list)

    def write(self, root: Path) -> RunFolder:
        """Write the folder below ``root``."""
        folder = RunFolder.create(self.run_id, root)
        folder.write_text(folder.scenario, self.scenario_yaml)
        folder.write_text(folder.policy, self.policy_yaml)
        folder.write_json(folder.manifest, self.manifest)
        folder.write_json(folder.conf, self.manifest.get("conf", {}))
        if self.fence:
            folder.write_json(folder.fence, self.fence)
        if self.accounting:
            folder.write_json(folder.accounting, self.accounting)
        for name, rows in self.tables.items():
            write_table(folder, name, rows)
        write_telemetry(folder, self.records)
        return folder


def quick_spike_run() -> RunContent:
    """Return the content of the whole run: 2 -> 12 -> 2 pods on 12 partitions in 300 s.

    It is a fresh one each time, to be changed at will; only the records themselves are shared.
    """
    made = _simulated()
    return RunContent(
        manifest=deepcopy(made.manifest),
        fence=deepcopy(made.fence),
        accounting=deepcopy(made.accounting),
        tables={name: list(rows) for name, rows in made.tables.items()},
        records=list(made.records),
    )


@cache
def simulated_spike() -> Outcome:
    """Return the course of the simulated run."""
    return Simulation(SpikeStory(), EPOCH).run()


@cache
def _simulated() -> RunContent:
    out = simulated_spike()
    return RunContent(
        manifest=spike_tables.manifest(EPOCH, RUN_ID),
        fence=spike_tables.fence(out),
        accounting=spike_tables.accounting(out),
        tables=spike_tables.tables(out),
        records=spike_records.records(out),
    )


def write_table(folder: RunFolder, name: str, rows: list[tuple[Any, ...]]) -> None:
    """Write ``rows`` as Spark would: a folder with a part file."""
    columns = TABLE_COLUMNS[name]
    arrays = [
        pa.array([row[index] for row in rows], type=kind) for index, (_, kind) in enumerate(columns)
    ]
    _write(folder, name, pa.Table.from_arrays(arrays, names=[column for column, _ in columns]))


def write_telemetry(folder: RunFolder, records: list[Record]) -> None:
    """Write the telemetry table."""
    texts = [encode_record(record).decode() for record in records]
    table = pa.table(
        {
            "at": pa.array([record.at for record in records], type=INT),
            "source": pa.array([record.source for record in records], type=TEXT),
            "kind": pa.array([record.__struct_config__.tag for record in records], type=TEXT),
            "record": pa.array(texts, type=TEXT),
        }
    )
    _write(folder, "telemetry", table)


def _write(folder: RunFolder, name: str, table: pa.Table) -> None:
    directory = folder.table(name)
    directory.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, directory / "part-00000.parquet")
    (directory / "_SUCCESS").touch()


def write_by_partition(folder: RunFolder) -> None:
    """Write the table ``timeline_by_partition``, and what a message costs."""
    out = simulated_spike()
    offered, partitions = np.array(out.offered), out.story.partitions
    bins = np.tile(np.arange(len(offered))[:, None], (1, partitions))
    columns = {
        "partition": np.tile(np.arange(partitions), len(offered)),
        "at": out.epoch + bins.ravel() * 100_000_000,
        "offered": offered.ravel(),
        "processed": out.done_by_partition.ravel(),
        "lost": np.zeros(offered.size, np.int64),
    }
    table = folder.table("timeline_by_partition")
    table.mkdir(parents=True)
    pq.write_table(pa.table(columns), table / "part-00000.parquet")
    accounting = folder.read_json(folder.accounting)
    folder.write_json(folder.accounting, {**accounting, "message_seconds": 0.002})
