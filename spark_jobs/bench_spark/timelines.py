"""Draw a landed run over time: rates, handovers, lag, replicas, latency."""

from __future__ import annotations

from bench_spark import schemas
from bench_spark.run_folder import RunFolder
from bench_spark.transforms import rates, samples
from bench_spark.transforms.handovers import partition_gaps
from bench_spark.transforms.latency import latency
from bench_spark.work import Work


def draw(folder: RunFolder, work: Work) -> None:
    """Write the tables of the run's course; a repetition replaces them."""
    events = folder.read_table("events", schemas.EVENTS)
    telemetry = folder.read_table("telemetry", schemas.TELEMETRY)
    by_pod = rates.pod_bins(work.processed).persist()
    offered = rates.offered_bins(events).persist()
    tables = {
        "timeline": (schemas.TIMELINE, rates.timeline(offered, by_pod, work.repeats)),
        "timeline_by_pod": (schemas.TIMELINE_BY_POD, rates.timeline_by_pod(by_pod)),
        "partition_gaps": (schemas.PARTITION_GAPS, partition_gaps(work.runs)),
        "lag": (schemas.LAG, samples.lag(telemetry)),
        "replicas": (schemas.REPLICAS, samples.replicas(telemetry)),
        "latency": (schemas.LATENCY, latency(work.processed)),
    }
    for name, (schema, table) in tables.items():
        folder.write_table(name, schema, table)
