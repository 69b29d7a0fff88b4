"""A summary that counts rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass
class RowCount:
    """The table ``odd`` has the number of rows."""

    rows: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the batch's rows."""
        self.rows += batch.num_rows

    def tables(self) -> dict[str, pa.Table]:
        """Return the one table."""
        return {"odd": pa.table({"kind": ["seen"], "count": [self.rows]})}
