"""Draw a landed run over time: rates, handovers, lag, replicas, latency."""

from __future__ import annotations

from functools import partial

from pyspark.sql import functions as F  # noqa: N812

from lagbench_spark import schemas
from lagbench_spark.session import at_once
from lagbench_spark.transforms import rates, samples
from lagbench_spark.transforms.handovers import partition_gaps
from lagbench_spark.transforms.latency import latency
from lagbench_spark.work import Work


def draw(work: Work) -> None:
    """Write the tables of the run over time; a repetition replaces them.

    The accounting counts records that are not events of the run, and those stamped outside of it.
    """
    folder = work.folder
    by_pod = rates.within(rates.pod_bins(work.processed), work.window).persist()
    offered = rates.within(rates.offered_bins(work.events), work.window).persist()
    repeats = work.repeats
    if repeats is not None:
        repeats = rates.within(repeats.withColumn("at", F.col("done_at")), work.window)
    tables = {
        "timeline": (schemas.TIMELINE, rates.timeline(offered, by_pod, repeats)),
        "timeline_by_pod": (schemas.TIMELINE_BY_POD, rates.timeline_by_pod(by_pod)),
        "partition_gaps": (schemas.PARTITION_GAPS, partition_gaps(work.runs)),
        "lag": (schemas.LAG, samples.lag(work.telemetry)),
        "replicas": (schemas.REPLICAS, samples.replicas(work.telemetry)),
        "latency": (schemas.LATENCY, rates.within(latency(work.processed), work.window)),
    }
    at_once(
        *(
            partial(folder.write_table, name, schema, table)
            for name, (schema, table) in tables.items()
        )
    )
