"""Name the file in which the accounting says how far it is, and its steps."""

from __future__ import annotations

from typing import Final

PROGRESS_FILE: Final = "spark_progress.json"
"""``{"step": name, "done": tasks, "of": tasks}``, while the job runs."""
STEPS: Final = {
    "telemetry": "landing telemetry",
    "events": "landing the log",
    "processed": "landing the ledger",
    "accounting": "accounting",
}
"""Each step in order, in words."""
