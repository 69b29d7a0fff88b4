"""Read one topic of a run from its beginning to the fence, as a batch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from lagbench.shared_with_spark.kafka_options import spark_kafka_options

# With Kafka's default of 500 records a poll, the consumer's bookkeeping dominates the read.
_RECORDS_PER_POLL = "20000"
_FETCH_BYTES = str(8 * 1024 * 1024)


def read_topic(
    session: SparkSession,
    *,
    bootstrap_servers: str,
    topic: str,
    end_offsets: Mapping[int, int],
    has_headers: bool = False,
) -> DataFrame:
    """Return the records below ``end_offsets`` with the columns of Spark's Kafka source.

    If a record disappears during the read, the job fails (failOnDataLoss). A record that expired
    before is found by the accounting, which expects every offset up to the fence. Records of
    uncommitted transactions are left out: no reader of the topic would act on them.
    """
    fence = {topic: {str(partition): offset for partition, offset in end_offsets.items()}}
    return (
        session.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .options(**spark_kafka_options(os.environ))
        .option("assign", json.dumps({topic: sorted(end_offsets)}))
        .option("startingOffsets", "earliest")
        .option("endingOffsets", json.dumps(fence))
        .option("failOnDataLoss", "true")
        .option("includeHeaders", str(has_headers).lower())
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.max.poll.records", _RECORDS_PER_POLL)
        .option("kafka.max.partition.fetch.bytes", _FETCH_BYTES)
        .load()
    )
