"""Compare ``lagbench.core.keda.loop.source_metrics`` with recorded polls of KEDA's own lag code.

``python -m tests.conformance.keda_kafka_lag FILE`` (.json or .json.gz) prints ``N of N agree``;
exit code 1 on a difference. The polls of a case share one memory for persistent lag.
"""

from __future__ import annotations

import sys
from typing import Any

from lagbench.core.keda.loop.source_metrics import PartitionOffsets, PersistentLagMemory, read_lag
from tests.conformance.comparison import Comparison, run_command
from tests.fakes.triggers import read_trigger

COMPARED = ("metric", "lagWithPersistent", "active")


def compare(oracle: dict[str, Any]) -> Comparison:
    """Return the comparison over every poll of every case."""
    comparison = Comparison()
    for number, case in enumerate(oracle["cases"]):
        trigger = read_trigger("kafka", _metadata(case["metadata"]))
        memory = PersistentLagMemory()
        for poll_number, poll in enumerate(case["polls"]):
            offsets = {
                ("topic", int(partition)): _offsets(values)
                for partition, values in poll["partitions"].items()
            }
            reading, memory = read_lag(trigger, offsets, memory)
            computed = {
                "metric": reading.metric,
                "lagWithPersistent": reading.total_with_persistent,
                "active": reading.is_active,
            }
            wanted = {key: poll[key] for key in COMPARED if key in poll}
            comparison.expect(f"case {number} poll {poll_number}", wanted, computed)
    return comparison


def _metadata(given: dict[str, Any]) -> dict[str, str]:
    required = {"bootstrapServers": "broker:9092", "consumerGroup": "group", "topic": "topic"}
    texts = {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in given.items()
    }
    return {**required, **texts}


def _offsets(values: dict[str, Any]) -> PartitionOffsets:
    committed = values.get("committed")
    return PartitionOffsets(
        end=values.get("latest"),
        committed=None if committed in {None, -1} else committed,
        earliest=values.get("earliest"),
    )


if __name__ == "__main__":
    sys.exit(run_command("keda_kafka_lag", compare))
