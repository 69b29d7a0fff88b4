"""The application below ``/bench``: reports, live pages and files of runs, for logged-in users."""

from __future__ import annotations

from typing import Annotated

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import Depends, FastAPI, Header, HTTPException, Query
from fastapi import Path as PathParameter
from fastapi.responses import (
    FileResponse,
    HTMLResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)

from lagbench.shown import shown
from lagbench_airflow.links import report_path
from lagbench_airflow.pages.live_page import live_page, no_report_page, waiting_page
from lagbench_airflow.pages.live_stream import HEADERS, file_of_run, line_events, read_lines
from lagbench_airflow.pages.security_policy import OF_FILES
from lagbench_airflow.run_lookup import DAGS_WITH_REPORT, SCENARIO_DAG, folder_of_page

RunId = Annotated[str, PathParameter(pattern=r"^[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?$")]
MOST_OFFSET = 2**53
Offset = Annotated[int, Query(alias="from", ge=0, le=MOST_OFFSET)]
LastEvent = Annotated[int | None, Header(alias="Last-Event-ID", ge=0, le=MOST_OFFSET)]


def report_app(*, is_open: bool = False) -> FastAPI:
    """Return the application.

    A FastAPI application of a plugin is not behind Airflow's log-in by itself: each route requires
    the right to read the runs of ``scenario_run`` (``is_open`` leaves that to the caller).
    """
    may_read = requires_access_dag("GET", DagAccessEntity.RUN, SCENARIO_DAG)
    app = FastAPI(
        title="lagbench runs",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[] if is_open else [Depends(may_read)],
    )

    @app.get("/report/{dag_id}/{dag_run:path}")
    def report(dag_id: str, dag_run: str) -> Response:
        """Redirect to the report of a Dag run, for a night to that of its rehearsal.

        While the run is in progress, return its live page. Runs of other Dags have no report.
        """
        folder = folder_of_page(dag_id, dag_run)
        if folder is not None and folder.report.is_file():
            return RedirectResponse(report_path(folder.run_id))
        if folder is not None:
            page = live_page(folder.run_id)
        else:
            page = waiting_page() if dag_id in DAGS_WITH_REPORT else no_report_page()
        return HTMLResponse(page.html, headers=dict(page.headers))

    @app.get("/live/{run_id}/events")
    def events(run_id: RunId, offset: Offset = 0, last_event: LastEvent = None) -> Response:
        """Send the lines of ``live.jsonl`` from an offset on, as they come."""
        begins_at = offset if last_event is None else last_event
        return StreamingResponse(
            line_events(run_id, begins_at),
            media_type="text/event-stream",
            headers={**OF_FILES, **HEADERS},
        )

    @app.get("/live/{run_id}/lines")
    def lines(run_id: RunId, offset: Offset = 0) -> Response:
        """Return the lines of ``live.jsonl`` from an offset on: for browsers without streams."""
        return Response(
            read_lines(run_id, offset).as_json(),
            media_type="application/json",
            headers={**OF_FILES, **HEADERS},
        )

    @app.get("/runs/{run_id}/{path:path}")
    def file(run_id: RunId, path: str) -> Response:
        """Return one file of a run folder."""
        found = file_of_run(run_id, path)
        if found is None:
            raise HTTPException(404, f"run {run_id} has no file {shown(path)} for its readers")
        return FileResponse(found, headers=dict(OF_FILES))

    return app
