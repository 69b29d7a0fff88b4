"""Find the places in a run that may be wrong, from summaries: only they are read closely."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lagbench_spark.epochs import Epoch, rivals_of, unknown_work
from lagbench_spark.holdings import Hole
from lagbench_spark.totals import LogPart
from lagbench_spark.transforms.digests import compared_messages, compared_seqs, differing
from lagbench_spark.transforms.order import disorder
from lagbench_spark.transforms.ownership import RIVALS, SPANS, epochs_of, overdue_runs, with_epochs
from lagbench_spark.work import Work


@dataclass(frozen=True, slots=True)
class Ownership:
    """Spans and rivals as tables, and the runs that end after a rival began."""

    spans: DataFrame
    rivals: DataFrame
    overdue: DataFrame


@dataclass(frozen=True, slots=True)
class Suspicion:
    """The places where a class may occur; None: that class is ruled out."""

    identity: DataFrame | None
    seqs: DataFrame | None
    disorder: DataFrame | None
    ownership: Ownership | None
    slack_ns: int
    unbounded_pods: list[str]
    unknown_ownership: list[Hole]
    produced: int
    log: dict[int, LogPart]
    processed_by_pod: dict[str, int]


def suspect(work: Work) -> Suspicion:
    """Return the suspicion."""
    clocks = work.facts.clocks
    produced = _produced(work)
    compared = compared_messages(work.events, work.processed).persist()
    identity = differing(compared)
    seqs = differing(compared_seqs(work.events, produced)).persist()
    ownership, epochs = _ownership(work)
    by_pod: dict[str, int] = {}
    for epoch in epochs:
        by_pod[epoch.pod] = by_pod.get(epoch.pod, 0) + epoch.processed
    slack_ns = clocks.most_error_ns(by_pod)
    late = disorder(work.runs, slack_ns).persist()
    places = {"identity": identity, "seqs": seqs, "disorder": late}
    if ownership is not None:
        places["overdue"] = ownership.overdue
    found = _count(places)
    return Suspicion(
        identity=identity if found["identity"] and work.fence.has_work else None,
        seqs=seqs if found["seqs"] else None,
        disorder=late if found["disorder"] else None,
        ownership=ownership if found.get("overdue") else None,
        slack_ns=slack_ns,
        unbounded_pods=sorted(pod for pod in by_pod if clocks.of(pod) is None),
        unknown_ownership=[]
        if work.fence.accounting is not None
        else unknown_work(epochs, work.facts.holdings.holes),
        produced=produced,
        log=_log_parts(compared),
        processed_by_pod=by_pod,
    )


def _produced(work: Work) -> int:
    """Return the expected number of seqs.

    Without the producer's final report it is as many as the log has: a hole among them is noticed.
    """
    produced = work.facts.produced
    return work.fence.messages if produced is None else produced


def _ownership(work: Work) -> tuple[Ownership | None, list[Epoch]]:
    session = work.runs.sparkSession
    span_table = session.createDataFrame(work.spans, SPANS)
    dated = with_epochs(work.runs, span_table).persist()
    epochs = [Epoch(*row) for row in epochs_of(dated).collect()]
    if work.fence.accounting is not None:  # the pods do not report what they own
        return None, epochs
    rivals = rivals_of(epochs, work.spans, work.facts.holdings, work.facts.clocks)
    if not rivals:
        return None, epochs
    rival_table = session.createDataFrame(rivals, RIVALS)
    return Ownership(span_table, rival_table, overdue_runs(dated, rival_table)), epochs


def _count(places: dict[str, DataFrame]) -> dict[str, int]:
    """Return how many places each suspicion has, in one action."""
    counts = [
        table.agg(F.lit(name).alias("name"), F.count(F.lit(1)).alias("count"))
        for name, table in places.items()
    ]
    return {row["name"]: row["count"] for row in reduce(DataFrame.union, counts).collect()}


def _log_parts(compared: DataFrame) -> dict[int, LogPart]:
    rows = compared.groupBy("partition").agg(
        F.sum("in_left").alias("count"), F.min("first_offset").alias("first_offset")
    )
    return {row["partition"]: LogPart(row["count"], row["first_offset"]) for row in rows.collect()}
