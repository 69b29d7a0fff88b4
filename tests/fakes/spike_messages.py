"""The tables ``events`` and ``processed`` of the simulated run: a row for every message."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lagbench.adapters.runs.run_folder import RunFolder
from tests.fakes.run_folder_builder import EPOCH
from tests.fakes.spike_simulation import Outcome, Simulation, SpikeStory

BIN_NS = 100_000_000
COST_NS = 2_000_000


def write_messages(folder: RunFolder) -> None:
    """Write both tables as Spark would: each message was done in its offset's turn."""
    for name, table in _tables().items():
        directory = folder.table(name)
        directory.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, directory / "part-00000.parquet")


@cache
def _tables() -> dict[str, pa.Table]:
    story = SpikeStory()
    outcome = Simulation(story).run()
    events, processed = [], []
    for partition in range(story.partitions):
        offered = np.array([row[partition] for row in outcome.offered])
        planned_at = _instants(offered)
        done_at, pods = _work(outcome, partition)
        offsets = np.arange(planned_at.size)
        events.append(
            pa.table(
                {
                    "partition": np.full(offsets.size, partition, dtype=np.int32),
                    "offset": offsets,
                    "planned_at": planned_at,
                    "logged_at": planned_at,
                }
            )
        )
        processed.append(
            pa.table(
                {
                    "partition": np.full(done_at.size, partition, dtype=np.int32),
                    "offset": offsets[: done_at.size],
                    "started_at": done_at - COST_NS,
                    "done_at": done_at,
                    "pod": pods,
                }
            )
        )
    return {"events": pa.concat_tables(events), "processed": pa.concat_tables(processed)}


def _instants(counts: np.ndarray) -> np.ndarray:
    """Return an instant for each message, in the middle of its bin."""
    bins = np.repeat(np.arange(counts.size), counts)
    return EPOCH + bins * BIN_NS + BIN_NS // 2


def _work(outcome: Outcome, partition: int) -> tuple[np.ndarray, pa.Array]:
    counts, names = [], []
    for place, step in enumerate(outcome.done):
        for pod, partitions in step.items():
            if partition in partitions:
                counts.append((place, partitions[partition]))
                names += [pod] * partitions[partition]
    places = np.repeat([place for place, _ in counts], [count for _, count in counts])
    return EPOCH + places * BIN_NS + BIN_NS // 2, pa.array(names, type=pa.string())
