"""Read-only pages below ``/bench``: the files of run folders, for logged-in users."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import Depends, FastAPI, HTTPException
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from lagbench.adapters.runs.run_folder import runs_root
from lagbench_airflow.links import report_path
from lagbench_airflow.run_lookup import folder_of_page

# A report contains its scripts and styles and needs nothing from elsewhere.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
}
NOT_YET = (
    "<p>This run has no report yet. It is written by the task <code>verdict</code>; "
    "a run that ended earlier has none.</p>"
)
RunId = Annotated[str, PathParameter(pattern=r"^[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?$")]


def report_app(*, is_open: bool = False) -> FastAPI:
    """Return the application.

    A FastAPI application of a plugin is not behind Airflow's log-in by itself: each route requires
    the right to read the runs of ``scenario_run`` (``is_open`` leaves that to the caller).
    """
    may_read = requires_access_dag("GET", DagAccessEntity.RUN, "scenario_run")
    app = FastAPI(
        title="lagbench runs",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[] if is_open else [Depends(may_read)],
    )

    @app.get("/report/{dag_id}/{dag_run:path}")
    def report(dag_id: str, dag_run: str) -> Response:
        """Redirect to the report of a Dag run, for a night to that of its rehearsal."""
        folder = folder_of_page(dag_id, dag_run)
        if folder is None or not folder.report.is_file():
            return HTMLResponse(NOT_YET, headers=HEADERS)
        return RedirectResponse(report_path(folder.run_id))

    @app.get("/runs/{run_id}/{path:path}")
    def file(run_id: RunId, path: str) -> Response:
        """Return one file of a run folder."""
        found = confined(runs_root() / run_id, path)
        if found is None:
            raise HTTPException(404, f"run {run_id} has no file {path!r}")
        return FileResponse(found, headers=HEADERS)

    return app


def confined(folder: Path, path: str) -> Path | None:
    """Return the file ``path`` inside ``folder``; None if it is not a file or is outside it."""
    root = folder.resolve()
    try:
        found = (root / path).resolve()
    except (OSError, ValueError):  # too long, or a zero byte
        return None
    return found if found.is_relative_to(root) and found.is_file() else None
