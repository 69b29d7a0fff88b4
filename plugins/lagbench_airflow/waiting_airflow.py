"""``python -P waiting_airflow.py FD``: import Airflow, wait for work, and become ``airflow``.

The work is one line of JSON at the file descriptor: the environment and Airflow's arguments. Its
end without a line is the end: there is no bench.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress


def main(descriptor: int) -> None:
    """Import what a Dag run needs, wait for the work, and do it."""
    import httpx
    from airflow.__main__ import main as airflow
    from airflow.sdk.execution_time import supervisor

    # Private to Airflow: where it has moved, the first task builds it, and waits for its routes.
    with suppress(AttributeError):
        transport = supervisor.in_process_api_server().transport
        httpx.Client(transport=transport, base_url="http://in-process.invalid").get("/health")
    with os.fdopen(descriptor) as pipe:
        line = pipe.readline()
    if not line:
        return
    work = json.loads(line)
    os.environ.update(work["environment"])
    sys.argv = ["airflow", *work["arguments"]]
    airflow()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(int(sys.argv[1]))
