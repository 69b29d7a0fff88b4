"""Register the bench with Airflow: its pages, the report as a tab of the Dag run, and its link.

Every task's process executes this file. Modules that only the API server needs are therefore
imported there, at the first request.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.plugins_manager import AirflowPlugin

from lagbench_airflow import dag_run_note
from lagbench_airflow.links import URL_PREFIX, ReportLink, public_prefix

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import Receive, Scope, Send


class ReportApp:
    """An ASGI application that builds the real one at the first request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._app(scope, receive, send)

    @cached_property
    def _app(self) -> FastAPI:
        from lagbench_airflow.pages.bench_views import bench_app

        return bench_app()


def _view(name: str, destination: str, route: str, path: str, icon: str) -> dict[str, str]:
    """Return a page of the bench as a tab, or in the navigation.

    :param icon: the lines of a picture of 16 x 16; a narrow page has tabs without names.
    """
    lines = f'<path d="{icon}" fill="none" stroke="slategray" stroke-width="1.6"/>'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">{lines}</svg>'
    place = {"href": f"{public_prefix()}/{path}", "url_route": f"bench-{route}"}
    shown = {"name": name, "icon": f"data:image/svg+xml,{quote(svg)}"}
    return {"destination": destination, **shown, **place}


class LagbenchPlugin(AirflowPlugin):
    """The bench's part of the UI."""

    name = "lagbench"
    external_views = [  # noqa: RUF012 - Airflow's base class declares it as an instance's
        _view("Report", "dag_run", "report", "report/{DAG_ID}/{RUN_ID}", "M3 1h7l3 3v11H3zM6 8h4"),
        _view("Compare", "dag_run", "compare", "earlier/{DAG_ID}/{RUN_ID}", "M1 3h9M1 7h14M1 11h6"),
        _view("History", "dag", "history", "dag/{DAG_ID}", "M1 13l4-6 4 3 6-8"),
        _view("Bench", "nav", "runs", "runs", "M1 1v14h14M5 12V7M10 12V4") | {"category": "browse"},
    ]
    listeners = [dag_run_note]  # noqa: RUF012
    operator_extra_links = [ReportLink()]  # noqa: RUF012
    fastapi_apps = [  # noqa: RUF012
        {"app": ReportApp(), "url_prefix": URL_PREFIX, "name": "lagbench runs"}
    ]
