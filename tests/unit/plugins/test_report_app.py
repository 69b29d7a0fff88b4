"""The read-only pages of the run folders."""

from __future__ import annotations

from pathlib import Path

import pytest
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
