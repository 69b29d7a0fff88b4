"""Run in a process of its own: Airflow reads ``[api] base_url`` once, when it is imported.

Prints as JSON what a logged-in browser gets behind the path of that setting.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models import import_all_models
from airflow.models.base import Base
from airflow.models.dagrun import DagRun
from airflow.settings import engine
from airflow.utils.session import create_session
from fastapi.testclient import TestClient

NIGHT_OF_CELLS = "a_night"
OF_NIGHT = f"rehearsal__{NIGHT_OF_CELLS}"
CELLS_AND_OTHERS = (
    ("scenario_run", OF_NIGHT),
    ("scenario_run", f"{OF_NIGHT}__cell_1"),
    ("scenario_run", f"{OF_NIGHT}__try_2"),
    ("scenario_run", f"{OF_NIGHT}2"),
    ("scenario_run", OF_NIGHT.replace("a_night", "aXnight__cell_1")),
    ("own", OF_NIGHT),
)
PAGES = ("runs", "history", "experiments", "advice", "plan")


def main(dag_id: str, dag_run: str, *, prefix: str) -> dict[str, Any]:
    """Open the tab of a Dag run as the page does, and follow it."""
    from lagbench_plugin import LagbenchPlugin

    import_all_models()
    Base.metadata.create_all(engine)  # the log-in asks for revoked tokens
    with create_session() as session:
        session.add_all(
            DagRun(dag_id=dag, run_id=run, run_type="manual", state="failed", conf={})
            for dag, run in CELLS_AND_OTHERS
        )
    href = str(LagbenchPlugin.external_views[0]["href"])
    tab = href.replace("{DAG_ID}", dag_id).replace("{RUN_ID}", dag_run.replace("+", "%2B"))
    with TestClient(create_app(apps="core"), follow_redirects=False) as browser:
        stranger = browser.get(tab).status_code
        log_in = {"username": "admin", "password": "secret"}
        token = browser.post(f"{prefix}/auth/token", json=log_in).json()["access_token"]
        browser.headers["Authorization"] = f"Bearer {token}"
        redirect = browser.get(tab)
        location = redirect.headers.get("location", "")
        report = browser.get(location)
        lines = f"{location.rpartition('/runs/')[0]}/live/a-run/lines"
        live = browser.get(lines)
        pages = {name: browser.get(f"{prefix}/bench/{name}") for name in PAGES}
        viewer: Any = SimpleAuthManagerUser(username="vera", role="VIEWER")
        headers = {"Authorization": f"Bearer {get_auth_manager().generate_jwt(viewer)}"}
        seen = {name: browser.get(f"{prefix}/bench/{name}", headers=headers) for name in PAGES}
        accepts = [
            browser.post(f"{prefix}/bench/baseline", data={"run": "a-run"}, headers=more)
            for more in ({}, headers)
        ]
        night = browser.get(f"{tab.rpartition('/')[0]}/{NIGHT_OF_CELLS}").text
        no_role: Any = SimpleAuthManagerUser(username="nobody", role=None)
        nobody = get_auth_manager().generate_jwt(no_role)
        browser.headers["Authorization"] = f"Bearer {nobody}"
        stream = lines.replace("/lines", "/events")
        others = [f"{prefix}/bench/{name}" for name in PAGES]
        whole = (tab, location, lines, stream, *others)
        refused = [browser.get(path).status_code for path in whole]
    return {
        "tab": tab,
        "cells": re.findall(r"cell=([^\"]+)\"", night),
        "stranger": stranger,
        "location": location,
        "report": report.text,
        "live": live.json(),
        "without_right": refused,
        "pages": {name: reply.status_code for name, reply in pages.items()},
        "links": pages["runs"].text.count(f'href="{prefix}/bench/'),
        "viewer": {name: reply.status_code for name, reply in seen.items()},
        "accepts": [reply.status_code for reply in accepts],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], sys.argv[2], prefix=sys.argv[3])) + "\n")
