"""The application below ``/bench``: reports, live pages and files of runs, for logged-in users."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any
from urllib.parse import quote

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Query
from fastapi import Path as PathParameter
from fastapi.responses import (
    FileResponse,
    HTMLResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from jinja2 import Environment, FileSystemLoader

from lagbench.core.live.run_state import EVENTS, state_of
from lagbench.programs.live.run_follower import PhaseLog, failures_of
from lagbench.report.bench_page import link, render_bench_page
from lagbench.report.page import content_security_policy, scripts, styles
from lagbench.results.gate import told_verdict
from lagbench.results.served_files import file_of_run, read_lines
from lagbench_airflow.links import public_prefix, report_path, tab_path
from lagbench_airflow.nights import cell_name
from lagbench_airflow.pages.airflow_runs import NightCell, airflow_run, rehearsals
from lagbench_airflow.run_lookup import (
    DAGS_WITH_REPORT,
    NIGHTLY_DAG,
    SCENARIO_DAG,
    folder_of_page,
    folders_of_page,
)
from pod_program.shown import shown

RunId = Annotated[str, PathParameter(pattern=r"^[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?$")]

MOST_OFFSET = 2**53
Offset = Annotated[int, Query(alias="from", ge=0, le=MOST_OFFSET)]
LastEvent = Annotated[int | None, Header(alias="Last-Event-ID", ge=0, le=MOST_OFFSET)]
views = APIRouter()


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
    app.include_router(views)
    return app


@views.get(f"/report/{NIGHTLY_DAG}/{{night:path}}")
def report_of_night(night: str, cell: str = "") -> Response:
    """Redirect to the report of a night's rehearsal; list several above one of them."""
    cells = rehearsals(night)
    if len(cells) > 1:
        return night_page(night, cells, cell)
    return report(SCENARIO_DAG, cells[0].dag_run) if cells else report(NIGHTLY_DAG, night)


@views.get("/report/{dag_id}/{dag_run:path}")
def report(dag_id: str, dag_run: str) -> Response:
    """Redirect to the report of a Dag run.

    While the run is in progress, return its live page, or why it ended before it had one. Runs
    of other Dags have no report.
    """
    if dag_id not in DAGS_WITH_REPORT:
        return note("This Dag has no report", _OF_WHICH_DAGS)
    run = airflow_run(dag_id, dag_run)
    # A run that was cleared has no folder yet: the one that is there is of an earlier try.
    folder = folder_of_page(dag_id, dag_run) if run is None or run.is_planned else None
    if folder is not None and folder.report.is_file():
        return RedirectResponse(report_path(folder.run_id))
    if folder is not None and folder.live.is_file():
        return live_page(folder.run_id)
    phases = [] if folder is None else PhaseLog(folder.phases).news()
    if run is not None and run.has_ended:
        failed = {phase.name: phase.detail for phase in failures_of(phases)}
        problems = {f"{name} failed": text for name, text in {**run.problems, **failed}.items()}
        return note("The run has ended without a report", _NO_TASK, problems, _LOGS)
    state = state_of(phases[-1].name) if phases else "waiting for its task plan_cell"
    told = f"Now: {state}. This page looks again every three seconds."
    return note("The run has not begun", told, looks_again=True)


@views.get("/live/{run_id}/events")
def events(run_id: RunId, offset: Offset = 0, last_event: LastEvent = None) -> Response:
    """Send the lines of ``live.jsonl`` from an offset on, as they come."""
    begins_at = offset if last_event is None else last_event
    return StreamingResponse(
        line_events(run_id, begins_at),
        media_type="text/event-stream",
        headers={**OF_FILES, **HEADERS},
    )


@views.get("/live/{run_id}/lines")
def lines(run_id: RunId, offset: Offset = 0) -> Response:
    """Return the lines of ``live.jsonl`` from an offset on: for browsers without streams."""
    return Response(
        read_lines(run_id, offset).as_json(),
        media_type="application/json",
        headers={**OF_FILES, **HEADERS},
    )


@views.get("/runs/{run_id}/{path:path}")
def file(run_id: RunId, path: str) -> Response:
    """Return one file of a run folder."""
    found = file_of_run(run_id, path)
    if found is None:
        raise HTTPException(404, f"run {run_id} has no file {shown(path)} for its readers")
    return FileResponse(found, headers=dict(OF_FILES))


PAGE_HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'self'",  # the rest stands in the page
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_OF_WHICH_DAGS = (
    "A report is of a Dag run of scenario_run. A night of daily_spike_rehearsal shows that of its "
    "rehearsal, the tab of an experiment's Dag its result."
)
_NO_TASK = "No task failed: the Dag run was marked by hand, or reached its time limit."
_LOGS = (
    "Each task's log is on its page in the tab Task Instances. A new run begins with Trigger; the "
    "tab Details has the conf of this one."
)
_ASSETS = Path(__file__).resolve().parent / "assets"

_LIVE_SCRIPTS = ("course.js", "view.js", "curves.js", "stream.js")


def live_page(run_id: str) -> HTMLResponse:
    """Return the page of a run in progress; names in it come by the stream, as text."""
    live = f"{public_prefix()}/live/{run_id}"
    paths = {"events": f"{live}/events", "lines": f"{live}/lines", "report": report_path(run_id)}
    # JSON that no text can end: a ``<`` is written as its number.
    facts = {"run": run_id, **paths, "events_of_phases": EVENTS}
    settings = json.dumps(facts).replace("<", "\\u003c")
    texts = {"charts": scripts(), "script": "\n".join(map(_text, _LIVE_SCRIPTS))}
    looks = {"chart_styles": styles(), "style": _text("live.css")}
    templates = Environment(loader=FileSystemLoader(_ASSETS), autoescape=True)
    page = templates.get_template("live.html.j2")
    html = page.render(run_id=run_id, settings=settings, **texts, **looks)
    policy = content_security_policy(texts.values(), looks.values(), own="'self'")
    headers = {**OF_FILES, "Content-Security-Policy": f"{policy}; frame-ancestors 'self'"}
    return HTMLResponse(html, headers={**headers, "Cache-Control": "no-store"})


def night_page(night: str, cells: Sequence[NightCell], shown: str) -> HTMLResponse:
    """Return the cells of a night with their verdicts, and below them one in a frame.

    :param shown: its Dag run; of none of the cells: the newest.
    """
    folders = {
        str(one.read_json(one.conf)["dag_run"]): one
        for one in reversed([*folders_of_page(NIGHTLY_DAG, night)])
    }
    shown = shown if shown in {cell.dag_run for cell in cells} else cells[-1].dag_run
    rows = []
    for cell in cells:
        folder, status, told = folders.get(cell.dag_run), "", f"{cell.state}; no verdict"
        if folder is not None and folder.verdict.is_file():
            status, told = folder.summary().verdict or "", told_verdict(folder)
        place = link(public_prefix(), f"report/{NIGHTLY_DAG}/{quote(night)}", cell=cell.dag_run)
        rows.append((cell.dag_run, cell_name(cell.conf), place, status, *told.split("; ", 1)))
    frame = tab_path(SCENARIO_DAG, shown)
    is_running = any(cell.state in ("queued", "running") for cell in cells)
    found: dict[str, Any] = {"rows": rows, "shown": shown, "frame": frame, "is_running": is_running}
    html = render_bench_page("night", title="Cells of the night", prefix=public_prefix(), **found)
    return HTMLResponse(html, headers=PAGE_HEADERS)


def note(
    title: str,
    text: str = "",
    problems: Mapping[str, str] = MappingProxyType({}),
    hint: str = "",
    *,
    looks_again: bool = False,
    status: int = 200,
) -> HTMLResponse:
    """Return a page that says something, or the problems by their headings."""
    told: dict[str, Any] = {"text": text, "problems": problems, "hint": hint}
    told["looks_again"] = looks_again
    html = render_bench_page("note", title=title, prefix=public_prefix(), **told)
    return HTMLResponse(html, status_code=status, headers=PAGE_HEADERS)


@cache
def _text(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


# A report contains its scripts and styles and needs nothing from elsewhere. A run folder may come
# from a stranger: in the sandbox it has an origin of its own, without the reader's session.
OF_FILES: Mapping[str, str] = {
    "Content-Security-Policy": (
        "sandbox allow-scripts allow-downloads; "
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


STREAM_SECONDS = 600.0
HEARTBEAT_SECONDS = 15.0
LOOK_SECONDS = 1.0
AGAIN_MILLISECONDS = 1000
"""The browser waits for that time before it opens the next stream."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""The second one lets a proxy pass each event on at once."""


async def line_events(
    run_id: str, offset: int, *, stream_seconds: float = STREAM_SECONDS
) -> AsyncIterator[str]:
    """Yield an event for new lines, one as heartbeat; end with the run or the time.

    The last event of a run is named ``over``. The heartbeat ``still`` is an event, because a page
    does not see comments: a page without either knows that something holds the stream back.
    """
    yield f"retry: {AGAIN_MILLISECONDS}\n\n"
    began = said_at = time.monotonic()
    while time.monotonic() - began < stream_seconds:
        reading = await asyncio.to_thread(read_lines, run_id, offset)
        offset, now = reading.next_offset, time.monotonic()
        if reading.lines or reading.is_over:
            said_at = now
            name = "lines" if reading.lines else "over"
            yield f"event: {name}\nid: {offset}\ndata: {reading.as_json()}\n\n"
            if reading.is_over:
                return
            continue
        if now - said_at >= HEARTBEAT_SECONDS:
            said_at = now
            yield "event: still\ndata: {}\n\n"
        await asyncio.sleep(LOOK_SECONDS)
