"""The read-only pages of the run folders."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a runs folder with one finished run and a secret beside it."""
    root = tmp_path / "runs"
    (root / "a-run").mkdir(parents=True)
    (root / "a-run" / "report.html").write_text("<p>the report</p>")
    (root / "a-run" / "conf.json").write_text('{"dag_run": "manual__2026-11-21T12:00:00+00:00"}')
    (tmp_path / "secret").write_text("secret")
    (root / "a-run" / "way-out").symlink_to(tmp_path)
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(root))
    return root


def client(*, is_open: bool = True) -> TestClient:
    """Return a client of the app; open means without Airflow's log-in."""
    from lagbench_airflow.report_app import report_app

    return TestClient(report_app(is_open=is_open), follow_redirects=False)


def test_a_report_is_served(runs: Path) -> None:
    """The file comes with a policy that lets it load nothing from elsewhere."""
    reply = client().get("/runs/a-run/report.html")

    assert reply.text == "<p>the report</p>"
    assert "default-src 'none'" in reply.headers["content-security-policy"]


def test_a_dag_run_leads_to_its_report(runs: Path) -> None:
    """The tab of a Dag run is sent on to the run folder that the Dag run made."""
    reply = client().get("/report/scenario_run/manual__2026-11-21T12:00:00+00:00")

    assert reply.headers["location"] == "/bench/runs/a-run/report.html"


@pytest.mark.parametrize(
    "base_url", ["", "/", "http://bench:8080", "https://example.org/team/air/"]
)
def test_tab_link_and_redirect_keep_the_path_of_base_url(
    runs: Path, monkeypatch: pytest.MonkeyPatch, base_url: str
) -> None:
    """Behind a proxy under a path, all three lead to pages that exist under that path."""
    from airflow.sdk.execution_time.xcom import XCom

    from lagbench_airflow.links import ReportLink, public_prefix
    from lagbench_airflow.report_app import report_app

    path = {"https://example.org/team/air/": "/team/air"}.get(base_url, "")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)
    monkeypatch.setattr(XCom, "get_value", lambda **_: {"run_id": "a-run"})
    airflow = FastAPI(root_path=path)
    airflow.mount("/bench", report_app(is_open=True))
    browser = TestClient(airflow, follow_redirects=False)
    key: Any = None

    tab = f"{public_prefix()}/report/scenario_run/manual__2026-11-21T12:00:00+00:00"
    redirect = browser.get(tab).headers["location"]
    link = ReportLink().get_link(key, ti_key=key)

    assert redirect == link == f"{path}/bench/runs/a-run/report.html"
    assert browser.get(link).text == "<p>the report</p>"


def test_the_tab_stands_behind_the_path_of_base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin, as an API server with that setting loads it, names the tab's whole path."""
    import runpy

    from lagbench.project import PROJECT_ROOT

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.org/team/air")
    plugin = runpy.run_path(str(PROJECT_ROOT / "plugins" / "lagbench_plugin.py"))["LagbenchPlugin"]

    assert plugin.external_views[0]["href"] == "/team/air/bench/report/{DAG_ID}/{RUN_ID}"
    assert plugin.fastapi_apps[0]["url_prefix"] == "/bench"


def test_a_night_leads_to_the_report_of_its_last_rehearsal(runs: Path) -> None:
    """The tab of the nightly Dag shows the run that it triggered; after a clearing, the new one."""
    night = "scheduled__2026-11-22T03:30:00+00:00"
    tries = {
        "first": f"rehearsal__{night}",
        "again": f"rehearsal__{night}__try_2",
        "other": f"rehearsal__{night}0",
        "by-hand": night,
    }
    for age, (run_id, dag_run) in enumerate(tries.items()):
        folder = runs / run_id
        folder.mkdir()
        (folder / "report.html").write_text(run_id)
        (folder / "conf.json").write_text(json.dumps({"dag_run": dag_run}))
        os.utime(folder, (age, age))

    reply = client().get(f"/report/daily_spike_rehearsal/{night}")

    assert reply.headers["location"] == "/bench/runs/again/report.html"


def test_a_run_without_report_says_so(runs: Path) -> None:
    """A Dag run that has not come to its verdict gets a page, no error."""
    assert "no report yet" in client().get("/report/scenario_run/manual__other").text


@pytest.mark.parametrize(
    "path",
    [
        "/runs/a-run/../../secret",
        "/runs/a-run/%2e%2e/%2e%2e/secret",
        "/runs/a-run/..%2f..%2fsecret",
        "/runs/..%2f/secret",
        "/runs/a-run/way-out/secret",
        "/runs/a-run//etc/passwd",
        "/runs/a-run/%00",
        "/runs/a-run/",
    ],
)
def test_no_path_leads_out(runs: Path, path: str) -> None:
    """Neither dots, nor links, nor absolute paths reach a file outside the run folder."""
    reply = client().get(path)

    assert reply.status_code in (404, 422)
    assert "secret" not in reply.text or "no file" in reply.text


def test_nothing_can_be_written(runs: Path) -> None:
    """Only reading is offered."""
    assert client().put("/runs/a-run/report.html").status_code == 405


def test_a_stranger_is_refused(runs: Path) -> None:
    """Without Airflow's log-in nothing is served."""
    assert client(is_open=False).get("/runs/a-run/report.html").status_code in (401, 403)
