"""Read the output topic of a consumer as its ledger: each record names the message that it is of.

The identity is in the header that the consumer passed on. The instant is that of the broker, which
appended the record; records of one millisecond are in the order of their offsets. The pod is not
known: each partition of the output topic stands for one owner, because an order exists only there.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from lagbench.core.ownership import OWNER_PREFIX
from lagbench_spark import schemas
from lagbench_spark.transforms.event_rows import decode_events, event_headers

_NOWHERE = -1


def output_rows(records: DataFrame, events: DataFrame, *, run_id: str | None) -> DataFrame:
    """Return the output's records as rows of ``schemas.PROCESSED``.

    A record without the run's identity has only its place and the reason. One of a message that
    the log does not hold is at partition and offset -1.

    :param records: of Spark's Kafka source, with headers.
    :param events: rows of ``schemas.EVENTS``.
    """
    identities = event_headers(records, run_id=run_id)
    decoded = identities.mapInArrow(partial(decode_events, stream_started_at=None), schemas.EVENTS)
    written = decoded.select(
        "seq",
        "entity_id",
        "size_bytes",
        "logged_at",
        F.col("partition").alias("ledger_partition"),
        F.col("offset").alias("ledger_offset"),
    )
    known = events.filter(F.col("seq").isNotNull())
    place = F.min(F.struct("partition", "offset", "planned_at")).alias("place")
    joined = written.join(known.groupBy("seq").agg(place), on="seq", how="left")
    same_instant = Window.partitionBy("ledger_partition", "logged_at").orderBy("ledger_offset")
    turn = F.row_number().over(same_instant) - 1
    at = F.when(F.col("seq").isNotNull(), F.col("logged_at") + turn)
    size = F.coalesce(F.col("size_bytes").cast("string"), F.lit("no"))
    reason = F.concat(F.lit("a value of "), size, F.lit(" bytes, without the run's header"))
    owner = F.concat(F.lit(OWNER_PREFIX), F.col("ledger_partition").cast("string"))
    is_of_run = F.col("seq").isNotNull()
    nowhere = F.when(is_of_run, F.lit(_NOWHERE))
    return joined.select(
        F.coalesce("place.partition", nowhere).alias("partition"),
        F.coalesce("place.offset", nowhere).alias("offset"),
        "seq",
        "entity_id",
        F.col("place.planned_at").alias("planned_at"),
        at.alias("started_at"),
        at.alias("done_at"),
        F.when(is_of_run, owner).alias("pod"),
        F.when(is_of_run, F.lit("")).alias("member_id"),
        "ledger_partition",
        "ledger_offset",
        F.lit(None).cast("int").alias("failed_attempts"),
        F.when(~is_of_run, reason).alias("foreign"),
    )
