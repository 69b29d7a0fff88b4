"""Name the file in which the accounting says how far it is, and its steps; look once a second."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_LOOK_SECONDS = 1.0

PROGRESS_FILE: Final = "spark_progress.json"
"""``{"step": name, "done": tasks, "of": tasks}``, while the job runs."""
STEPS: Final = {
    "telemetry": "landing telemetry",
    "events": "landing the log",
    "processed": "landing the ledger",
    "accounting": "accounting",
}
"""Each step in order, in words."""


@contextmanager
def each_second(look: Callable[[], object]) -> Iterator[None]:
    """Call ``look`` once a second in a thread of its own during the block."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(_LOOK_SECONDS):
            look()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
