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


SECRET_VARIABLE = "_SPARK_AUTH_SECRET"  # noqa: S105 - a name
"""Spark's own: daemons read it, and workers hand it to their executors. Never ``-D`` or ``--conf``:
each user of the machine sees command lines."""

SECRET_SETTING = "spark.authenticate.secret"  # noqa: S105 - a name
"""A driver needs it beside the variable, unless its master is ``local`` or ``k8s``."""

AUTHENTICATED = {
    "spark.authenticate": "true",
    # A driver sends its settings to its executors, and the secret is one of them.
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
}
"""Settings of every process, which may be on a command line."""

SPARK_MEMBER = r"^batch-(\d+)\.\d+$"
"""The first group is the number of the micro-batch."""


def spark_member(batch: int, task: int) -> str:
    """Return the name of a task of a micro-batch; a task that is done again has another number."""
    return f"batch-{batch}.{task}"
