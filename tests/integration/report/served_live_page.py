"""The live page of a run that is made of given lines, for a browser."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import uvicorn
from fastapi import FastAPI
from tests.eventually import eventually
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow

from lagbench.adapters.runs.run_folder import RUNS_DIR_VARIABLE, RunFolder
from lagbench_airflow.links import URL_PREFIX
from lagbench_airflow.pages.report_app import report_app

DAG_RUN = "shown"


@contextmanager
def served_live_page(run_id: str, lines: Sequence[str]) -> Iterator[str]:
    """Serve the page of a run that has these live lines and no report; yield its address."""
    with tempfile.TemporaryDirectory() as root, patch.dict(os.environ, {RUNS_DIR_VARIABLE: root}):
        folder = RunFolder(Path(root) / run_id)
        folder.path.mkdir()
        folder.conf.write_text(json.dumps({"dag_run": DAG_RUN}), encoding="utf-8")
        folder.live.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        with served_bench(FastAPI()) as address:
            yield f"{address}/report/scenario_run/{DAG_RUN}"


@contextmanager
def served_bench(app: FastAPI, pages: FastAPI | None = None) -> Iterator[str]:
    """Serve the pages of the bench as a part of ``app``; yield the address of that part.

    :param pages: None: those of a run alone.
    """
    app.mount(URL_PREFIX, pages or report_app(is_open=True))
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started, "the server")
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}{URL_PREFIX}"
    finally:
        server.should_exit = True
        thread.join()
