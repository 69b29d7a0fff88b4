"""The pages of all runs below ``/bench``: what they show is rendered by ``lagbench.report``."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import urlsplit

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, get_user, requires_access_dag
from airflow.sdk.configuration import conf
from fastapi import APIRouter, Depends, FastAPI, Form, HTTPException, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException as StarletteHTTPException

from lagbench.adapters.runs.experiment_folder import executions
from lagbench.adapters.runs.run_folder import RunFolder, runs_root
from lagbench.catalog.catalog import checked_cell
from lagbench.catalog.conf import conf_limits, refuse_unknown, settings_of
from lagbench.catalog.strict_yaml import parse_yaml
from lagbench.core.compare.cell_history import HistoryRow
from lagbench.errors import LagbenchError, NotReady, WrongInput
from lagbench.report import compare_page, experiments_page, history_page, plan_page, runs_page
from lagbench.report.advice_page import render_advices
from lagbench.report.bench_page import link
from lagbench.results.advice_files import ADVICE_FOLDER, AdviceFolder
from lagbench.results.compared_runs import pinned_baselines, read_baseline, read_noise_floors
from lagbench.results.gate import COMPARISON_FILE, PASSED, accept
from lagbench.results.history import read_earlier, whole_history
from lagbench.results.served_files import file_of_run
from lagbench_airflow.hooks import target
from lagbench_airflow.links import public_prefix
from lagbench_airflow.pages.airflow_runs import started_by
from lagbench_airflow.pages.report_app import OF_FILES, PAGE_HEADERS, note, report_app
from lagbench_airflow.params import scenario_run_params
from lagbench_airflow.run_lookup import (
    NIGHTLY_DAG,
    REHEARSAL_PREFIX,
    SCENARIO_DAG,
    folder_of_page,
)

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,120}")
"""Of a folder that an address names."""
_TEXTS = ("policy.yaml", "scenario.yaml")
_EXPERIMENT_DAG, _ADVICE_DAG = "experiment_", "advise"
_RIGHTS = (
    f"Your role in Airflow does not allow this. A plan needs the right to trigger {SCENARIO_DAG}, "
    f"a new baseline the right to change runs of {NIGHTLY_DAG}."
)
_OF_NO_PLAN = ("keep_bench", "ask", "run_id")
"""Fields of the Dag's form that change nothing of what a run would do."""
MAY_TRIGGER = requires_access_dag("POST", DagAccessEntity.RUN, SCENARIO_DAG)
MAY_ACCEPT = requires_access_dag("PUT", DagAccessEntity.RUN, NIGHTLY_DAG)


def has_right_to_accept(request: Request, user: GetUserDep) -> bool:
    """Return whether the user may make a run the baseline of its cell."""
    try:
        MAY_ACCEPT(request, user)
    except HTTPException:
        return False
    return True


MayAccept = Annotated[bool, Depends(has_right_to_accept)]
views = APIRouter()


def bench_app(*, is_open: bool = False) -> FastAPI:
    """Return the application of all pages.

    Beyond the right to read runs, the plan requires the right to trigger ``scenario_run``, and a
    baseline the right to change runs of the nightly (``is_open`` leaves all to the caller).
    """
    app = report_app(is_open=is_open)
    app.include_router(views)
    app.exception_handler(LagbenchError)(problem)
    app.exception_handler(StarletteHTTPException)(refusal)
    if is_open:
        anybody: tuple[Any, ...] = (MAY_TRIGGER, MAY_ACCEPT, get_user)
        app.dependency_overrides = {one: lambda: None for one in anybody}
        app.dependency_overrides[has_right_to_accept] = lambda: True
    return app


def problem(_: Request, error: LagbenchError) -> Response:
    """Say what was wrong with the address, or what is not there."""
    status = 400 if isinstance(error, WrongInput) else 404
    return note("This cannot be shown", text=str(error), status=status)


def refusal(_: Request, error: StarletteHTTPException) -> Response:
    """Say on a page what Airflow's rights do not allow, or what is not there."""
    text = _RIGHTS if error.detail == "Forbidden" else error.detail
    return note("This cannot be shown", text=text, status=error.status_code)


@views.get("/runs")
def runs(request: Request, page: int = 1) -> Response:
    """Show all runs, as the query filters and sorts them."""
    asked = {name: request.query_params.get(name, "") for name in runs_page.RunsQuery.__slots__}
    asked["sort"] = asked["sort"] or runs_page.NEWEST_FIRST
    query = runs_page.RunsQuery(**{**asked, "page": page})  # type: ignore[arg-type]
    rows, _ = whole_history(runs_root())
    return _page(runs_page.render_runs, rows, query, by=started_by, reports=_reports())


@views.get("/compare")
def compare(run: Annotated[list[str], Query(default_factory=list)]) -> Response:
    """Show runs on one axis."""
    compare_page.require_few(len(run))
    folders = [_require_run(one) for one in dict.fromkeys(run)]
    shown, floors = map(compare_page.read_shown, folders), read_noise_floors(runs_root())
    return _page(compare_page.render_compared, [*shown], floors, reports=_reports())


@views.get("/earlier/{dag_id}/{dag_run:path}")
def earlier(dag_id: str, dag_run: str) -> Response:
    """Lead to the comparison of a Dag run with the baseline and the last run of its cell."""
    folder = folder_of_page(dag_id, dag_run)
    found = None if folder is None or not folder.measures.exists() else read_earlier(folder)
    others = {one.name: one.run_id for one in (found.runs if found else ())}
    known = [others[name] for name in sorted(others) if file_of_run(others[name], "measures.json")]
    if folder is None or not known:
        raise NotReady("There is no earlier run of its cell, or this run has no measures yet.")
    return RedirectResponse(link(public_prefix(), "compare", run=[*known, folder.run_id]))


@views.get("/history")
def history(may_accept: MayAccept, cell: str = "", accepted: str = "") -> Response:
    """Show the cells, or one over time."""
    root = runs_root()
    rows, _ = whole_history(root)
    if not cell:
        return _page(history_page.render_cells, rows)
    of_cell = history_page.by_name(rows).get(cell)
    if not of_cell:
        raise WrongInput(where="history", field="cell", value=cell, allowed="a cell with a run")
    folders = [RunFolder(root / row.run_id) for row in of_cell]
    newest = [row for row in of_cell if row.cell == of_cell[-1].cell]
    acceptable = {row.run_id for row in newest if may_accept and _is_acceptable(row)}
    pinned = pinned_baselines(root).get(of_cell[-1].cell or "")
    return _page(
        history_page.render_history,
        of_cell,
        pinned=pinned,
        accepted=[one for folder in folders if (one := read_baseline(folder)) is not None],
        acceptable=acceptable,
        reports=_reports(),
        has_accepted=pinned is not None and accepted == pinned.run_id,
    )


@views.post("/baseline", dependencies=[Depends(MAY_ACCEPT)])
def baseline(request: Request, run: Annotated[str, Form()], user: GetUserDep) -> Response:
    """Make a rehearsal the baseline of its cell, in the name of the user."""
    _require_own_page(request)
    folder = _require_run(run)
    accept(folder, now=time.time_ns(), by=None if user is None else user.get_name())
    rows, _ = whole_history(runs_root())
    cell = next((row.cell_name for row in rows if row.run_id == run), "")
    return RedirectResponse(
        link(public_prefix(), "history", cell=cell, accepted=run), status_code=303
    )


@views.get("/experiments")
def experiments() -> Response:
    """Show all experiments."""
    rows = experiments_page.experiment_rows(runs_root())
    return _page(experiments_page.render_experiments, rows)


@views.get("/experiments/{name}")
@views.get("/experiments/{name}/{at}")
def experiment(name: str, at: str = "") -> Response:
    """Show an execution of an experiment, without ``at`` the newest."""
    found = executions(name) if _NAME.fullmatch(name) else []
    by_name = {one.path.name: one for one in reversed(found)}
    chosen = by_name.get(at or next(iter(by_name), ""))
    if chosen is None:
        raise NotReady(f"No execution of {name!r} is in the runs folder.")
    state = experiments_page.read_state(chosen)
    return _page(experiments_page.render_experiment, state, [*by_name], reports=_reports())


@views.get("/advice")
def advices() -> Response:
    """Show every advice."""
    return _page(render_advices, runs_root())


@views.get("/advice/{name}/advice.html")
def advice(name: str) -> Response:
    """Return the page of an advice."""
    path = AdviceFolder(runs_root() / ADVICE_FOLDER / name).page
    if not _NAME.fullmatch(name) or not path.is_file() or path.is_symlink():
        raise HTTPException(404, "no such advice")
    return FileResponse(path, headers=dict(OF_FILES))


@views.get("/plan", dependencies=[Depends(MAY_TRIGGER)])
def plan(request: Request) -> Response:
    """Show the form, and with a scenario what a run of it would do."""
    form, query = scenario_run_params(), request.query_params
    fields = {name: one.schema for name, one in form.items() if name not in _OF_NO_PLAN}
    asked = {name: query.get(name, "").strip() for name in fields}
    try:
        refuse_unknown(query, form)
        shown = _planned if asked["scenario"] else plan_page.render_plan_form
        return _page(shown, asked, fields)
    except LagbenchError as wrong:
        return _page(plan_page.render_plan_form, asked, fields, status=400, problem=str(wrong))


@views.get("/dag/{dag_id}")
def of_dag(dag_id: str) -> Response:
    """Lead to the page of a Dag: runs, the newest night's cell, an experiment, or advice."""
    place, query = "runs", dict[str, str]()
    if dag_id == NIGHTLY_DAG:
        rows = [row for row in whole_history(runs_root())[0] if row.cell is not None]
        nights = [row for row in rows if runs_page.dag_run_of(row).startswith(REHEARSAL_PREFIX)]
        place, query = "history", {"cell": nights[-1].cell_name if nights else ""}
    elif dag_id.startswith(_EXPERIMENT_DAG):
        name = dag_id.removeprefix(_EXPERIMENT_DAG)
        has_run = _NAME.fullmatch(name) and executions(name)
        place = f"experiments/{name}" if has_run else "experiments"
    elif dag_id == _ADVICE_DAG:
        place = "advice"
    return RedirectResponse(link(public_prefix(), place, **query))


def _page(render: Callable[..., str], *read: Any, status: int = 200, **more: Any) -> HTMLResponse:
    """Return what a function of ``lagbench.report`` renders, with links below our path."""
    html = render(*read, prefix=public_prefix(), **more)
    return HTMLResponse(html, status_code=status, headers=PAGE_HEADERS)


def _planned(asked: Mapping[str, str], fields: plan_page.Fields, *, prefix: str) -> str:
    given: dict[str, Any] = {name: value for name, value in asked.items() if value}
    for name, text in asked.items():
        if text and {"integer", "number"} & {*fields[name]["type"]}:  # so Trigger takes the conf
            given[name] = parse_yaml(text, where=f"field {name}")
    cell = checked_cell(
        asked["scenario"],
        policy=asked["policy"] or None,
        overrides=settings_of(given),
        limits=conf_limits({}),
    )
    place: dict[str, Any] = {"prefix": prefix, "is_embedded": False}
    with suppress(NotReady):  # without a connection nothing is known of the machine that runs it
        place["is_embedded"] = target.is_embedded()
    return plan_page.render_plan(asked, fields, cell, **place, conf=given)


def _reports() -> set[str]:
    """Return the runs that have a report."""
    return {path.parent.name for path in runs_root().glob("*/report.html")}


def _require_run(run_id: str) -> RunFolder:
    """Return the folder of a measured run of this machine."""
    path = file_of_run(run_id, "measures.json") if _NAME.fullmatch(run_id) else None
    # A folder of a stranger shows no text from elsewhere as its own.
    if path is None or any((path.parent / name).is_symlink() for name in _TEXTS):
        allowed = "a run with measures in the runs folder"
        raise WrongInput(where="the address", field="run", value=run_id, allowed=allowed)
    return RunFolder(path.parent)


def _is_acceptable(row: HistoryRow) -> bool:
    """Return whether the gate would take the run as a baseline."""
    return row.verdict == PASSED and file_of_run(row.run_id, COMPARISON_FILE) is not None


def _require_own_page(request: Request) -> None:
    """Reject a request that a page of another site made with the user's cookie.

    The browser says where it comes from; a client with a token of its own needs no cookie.
    """
    headers = request.headers
    if headers.get("authorization", "").lower().startswith("bearer "):
        return  # a browser adds no token by itself, as it does a password for a proxy
    site = headers.get("sec-fetch-site")
    own = {headers.get("host"), urlsplit(conf.get("api", "base_url", fallback="")).netloc}
    origin = urlsplit(headers.get("origin") or "").netloc
    if site != "same-origin" and (site is not None or not origin or origin not in own):
        raise HTTPException(403, "only from a page of this bench")
