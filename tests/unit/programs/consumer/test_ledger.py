"""The ledger's record format."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
from tests.unit.programs.consumer.records import chunk

from lagbench.programs.consumer.ledger import encode_batch, ledger_schema
from lagbench.programs.consumer.partition_work import PartitionWork, Writes


def test_a_batch_is_an_arrow_stream_with_every_column_in_order() -> None:
    """Several periods of writes become one record batch with the agreed columns and labels."""
    work = PartitionWork(3, "member-1")
    work.offer(chunk(10, 5))
    periods = []
    for count in (2, 3):
        offsets, events = work.begin(count)
        started_at = offsets * 100
        periods.append(Writes(work, offsets, events, started_at, started_at + 50))

    value = encode_batch(periods, ledger_schema(3, "pod-a", "member-1"))

    table = pa.ipc.open_stream(value).read_all()
    assert table.to_pydict() == {
        "offset": [10, 11, 12, 13, 14],
        "seq": [1010, 1011, 1012, 1013, 1014],
        "entity_id": [70, 77, 84, 91, 98],
        "planned_offset_ns": [110, 121, 132, 143, 154],
        "started_at": [1000, 1100, 1200, 1300, 1400],
        "done_at": [1050, 1150, 1250, 1350, 1450],
    }
    assert [str(kind) for kind in table.schema.types] == [
        "int64", "uint64", "uint64", "int64", "int64", "int64",
    ]  # fmt: skip
    assert table.schema.metadata == {
        b"version": b"1",
        b"pod": b"pod-a",
        b"partition": b"3",
        b"member_id": b"member-1",
    }


def test_encoding_does_not_import_pandas() -> None:
    """Pandas would cost each pod a second and 50 MB."""
    code = (
        "import sys; import numpy as np;"
        "from lagbench.programs.consumer.ledger import encode_batch, ledger_schema;"
        "from lagbench.programs.consumer.partition_work import PartitionWork, Writes;"
        "from tests.unit.programs.consumer.records import chunk;"
        "work = PartitionWork(0, 'm'); work.offer(chunk(0, 2)); taken = work.begin(2);"
        "writes = Writes(work, *taken, taken[0], taken[0]);"
        "encode_batch([writes], ledger_schema(0, 'p', 'm'));"
        "sys.exit('pandas' in sys.modules)"
    )

    ended = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)

    assert ended.returncode == 0
