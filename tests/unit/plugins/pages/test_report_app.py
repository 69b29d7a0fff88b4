"""The read-only pages of the run folders."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import runpy
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.testclient import TestClient
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.fakes.compared_runs import write_run

from lagbench.project import PROJECT_ROOT
from lagbench_airflow.links import ReportLink, public_prefix
from lagbench_airflow.pages import report_app as live_page
from lagbench_airflow.pages.airflow_runs import AirflowRun, NightCell
from lagbench_airflow.pages.report_app import report_app

from airflow.sdk.execution_time.xcom import XCom  # isort: skip

DAG_RUN = "manual__2026-11-21T12:00:00+00:00"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a runs folder with one finished run and a secret beside it."""
    root = tmp_path / "runs"
    (root / "a-run").mkdir(parents=True)
    (root / "a-run" / "report.html").write_text("<p>the report</p>")
    (root / "a-run" / "conf.json").write_text('{"dag_run": "manual__2026-11-21T12:00:00+00:00"}')
    (tmp_path / "secret").write_text("secret")
    (root / "a-run" / "way-out").symlink_to(tmp_path)
    (root / "outside").symlink_to(tmp_path)
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(root))
    return root


def client(*, is_open: bool = True) -> TestClient:
    """Return a client of the app; open means without Airflow's log-in."""
    return TestClient(report_app(is_open=is_open), follow_redirects=False)


def page_of(run_id: str) -> str:
    """Return the live page of a run."""
    return bytes(live_page.live_page(run_id).body).decode()


def settings_in(page: str) -> dict[str, str]:
    """Return what the live page is given."""
    found = re.search(r'id="live-settings">(.*?)</script>', page)
    assert found is not None
    settings: dict[str, str] = json.loads(found[1])
    return settings


def test_a_report_is_served(runs: Path) -> None:
    """With a policy that lets it load nothing from elsewhere; the tab of a Dag run leads there."""
    sent = client().get(f"/report/scenario_run/{DAG_RUN}")
    reply = client().get("/runs/a-run/report.html")

    assert sent.headers["location"] == "/bench/runs/a-run/report.html"
    assert reply.text == "<p>the report</p>"
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert "sandbox allow-scripts allow-downloads;" in reply.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("report.html", 200),
        ("second_group/report.html", 200),
        ("junit.xml", 200),
        ("measures.json", 200),
        ("policy-2.yaml", 200),
        ("logs/consumer-0.log", 200),
        ("x.html", 404),
        ("x.svg", 404),
        ("logs/report.html", 404),
        ("a/second_group/report.html", 404),
        ("own-consumer.yaml", 404),
        (".own-deployment.yaml.x1", 404),
        (".report.html", 404),
        ("logs/.hidden.log", 404),
    ],
)
def test_only_what_a_run_writes_is_served(runs: Path, name: str, status: int) -> None:
    """A shared run folder may have pages and pictures of a stranger, and left-overs."""
    file = runs / "a-run" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x")

    assert client().get(f"/runs/a-run/{name}").status_code == status


def test_a_link_leads_to_no_file_of_another_name(runs: Path) -> None:
    """Nor round and round."""
    (runs / "a-run" / "x.html").write_text("x")
    (runs / "a-run" / "conf.json").unlink()
    (runs / "a-run" / "conf.json").symlink_to("x.html")
    (runs / "a-run" / "fence.json").symlink_to("fence.json")

    replies = [client().get(f"/runs/a-run/{name}") for name in ("conf.json", "fence.json")]

    assert [reply.status_code for reply in replies] == [404, 404]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/runs/a-run/{'x' * 5000}", 404),
        (f"/runs/a-run/logs/{'x' * 5000}.log", 404),
        (f"/runs/{'x' * 5000}/report.html", 422),
        (f"/report/scenario_run/{'x' * 5000}", 200),
        (f"/live/a-run/lines?from={10**20}", 422),
        (f"/live/a-run/lines?from={2**53}", 200),
    ],
)
def test_a_long_path_or_number_is_no_error_of_the_server(
    runs: Path, path: str, status: int
) -> None:
    """There is no such file, or no such offset."""
    (runs / "a-run" / "live.jsonl").write_text('{"at":1}\n')

    assert client().get(path).status_code == status


@pytest.mark.parametrize(
    ("base_url", "path"),
    [("", ""), ("/", ""), ("http://bench:8080", ""), ("https://example.org/team/a/", "/team/a")],
)
def test_tab_link_and_redirect_keep_the_path_of_base_url(
    runs: Path, monkeypatch: pytest.MonkeyPatch, base_url: str, path: str
) -> None:
    """Behind a proxy under a path, all three lead to pages that exist under that path.

    The plugin, as an API server with that setting loads it, names the tab's whole path.
    """
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)
    monkeypatch.setattr(XCom, "get_value", lambda **_: {"run_id": "a-run"})
    airflow = FastAPI(root_path=path)
    airflow.mount("/bench", report_app(is_open=True))
    browser, key = TestClient(airflow, follow_redirects=False), dict[str, Any]()
    redirect = browser.get(f"{public_prefix()}/report/scenario_run/{DAG_RUN}").headers["location"]
    link = ReportLink().get_link(key, ti_key=key)  # type: ignore[arg-type]

    assert redirect == link == f"{path}/bench/runs/a-run/report.html"
    assert browser.get(link).text == "<p>the report</p>"
    module = PROJECT_ROOT / "plugins" / "lagbench_airflow" / "airflow_plugin.py"
    plugin = runpy.run_path(str(module))["LagbenchPlugin"]
    assert plugin.external_views[0]["href"] == f"{path}/bench/report/{{DAG_ID}}/{{RUN_ID}}"
    assert plugin.fastapi_apps[0]["url_prefix"] == "/bench"


def test_each_view_has_a_picture_of_its_own() -> None:
    """On a narrow page Airflow shows the pictures of its tabs alone."""
    module = PROJECT_ROOT / "plugins" / "lagbench_airflow" / "airflow_plugin.py"
    views = runpy.run_path(str(module))["LagbenchPlugin"].external_views
    kind, _, svg = views[0]["icon"].partition(",")

    assert len({view["icon"] for view in views}) == len(views)
    assert kind == "data:image/svg+xml"
    assert unquote(svg).startswith("<svg ")


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


def test_a_night_of_several_cells_lists_all(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With verdict and gate, also one that has no run folder; the frame shows one, else the newest.

    A cleared cell's tries are both there.
    """
    cells = [
        NightCell("rehearsal__n", "failed", {"scenario": "hello", "policy": ""}),
        NightCell("rehearsal__n__cell_1", "success", {"scenario": "bursty", "policy": "lag-quick"}),
        NightCell("rehearsal__n__try_2", "running", {"scenario": "hello", "policy": ""}),
    ]
    monkeypatch.setattr(live_page, "rehearsals", lambda night: cells if night == "n" else [])
    write_run(runs, "judged", verdict="pass")
    (runs / "judged" / "conf.json").write_text('{"dag_run": "rehearsal__n__cell_1"}')
    (runs / "judged" / "comparison.json").write_text('{"status": "regressed", "reasons": ["x"]}')

    newest, chosen = (
        client().get(f"/report/daily_spike_rehearsal/n{query}").text
        for query in ("", "?cell=rehearsal__n__cell_1")
    )

    rows = re.findall(r"<tr><td class=\"whole-word\">(.*?)</td></tr>", newest)
    assert [re.sub("(<.*?>)+", "|", row).strip("|") for row in rows] == [
        "hello, its own policy|failed|no verdict",
        "bursty, lag-quick|pass|gate: regressed; x",
        "hello, its own policy|running|no verdict",
    ]
    assert 'src="/bench/report/scenario_run/rehearsal__n__try_2"' in newest
    assert 'src="/bench/report/scenario_run/rehearsal__n__cell_1"' in chosen
    assert re.findall(r"cell=([^\"]*)\" aria-current", chosen) == ["rehearsal__n__cell_1"]


@pytest.mark.parametrize(
    ("dag_run", "looks_again"),
    [("scenario_run/manual__other", True), ("bench_lifecycle/manual__2026-11-21", False)],
)
def test_a_dag_run_without_a_folder_says_so(runs: Path, dag_run: str, looks_again: bool) -> None:
    """One that has not planned its cell gets a page that looks again; of other Dags none comes."""
    page = client().get(f"/report/{dag_run}")

    assert page.status_code == 200
    assert (" data-again>" in page.text) is looks_again


REFUSED = {"plan_cell": "conf: seed = <x> is not allowed"}


@pytest.mark.parametrize(
    ("run", "phase", "shown"),
    [
        (AirflowRun(True, False, REFUSED), None, "seed = &lt;x&gt; is not allowed"),
        (AirflowRun(True, False, {}), None, "No task failed"),
        (AirflowRun(True, True, {"bench_up": "?"}), "failed", "no Java"),
        (AirflowRun(True, True, {}), "finished", "No task failed"),
        (AirflowRun(False, True, {"bench_up": "?"}), "failed", "starting the bench"),
        # Cleared: the folder, and its report, are of the earlier try.
        (AirflowRun(False, False, {}), None, "plan_cell"),
    ],
)
def test_a_run_without_a_page_of_its_own_says_how_it_stands(
    runs: Path, monkeypatch: pytest.MonkeyPatch, run: AirflowRun, phase: str | None, shown: str
) -> None:
    """It looks again as long as Airflow works on it, and then names what failed; a night, too."""
    monkeypatch.setattr(live_page, "airflow_run", lambda *_: run)
    if phase is not None:
        (runs / "a-run" / "report.html").unlink()
        line = {"at": 1, "name": "bench_up", "state": phase, "detail": "no Java"}
        (runs / "a-run" / "phases.jsonl").write_text(f"{json.dumps(line)}\n")

    for dag_id, made_by in (
        ("scenario_run", DAG_RUN),
        ("daily_spike_rehearsal", f"rehearsal__{DAG_RUN}"),
    ):
        (runs / "a-run" / "conf.json").write_text(json.dumps({"dag_run": made_by}))
        page = client().get(f"/report/{dag_id}/{DAG_RUN}")
        assert page.status_code == 200
        assert shown in page.text
        assert (" data-again>" in page.text) is not run.has_ended


def test_the_live_page_runs_its_own_scripts_alone(runs: Path) -> None:
    """Its policy names each inline script and style by its digest, and no other origin."""
    (runs / "a-run" / "report.html").unlink()
    (runs / "a-run" / "live.jsonl").write_text("")

    page = client().get(f"/report/scenario_run/{DAG_RUN}")

    assert settings_in(page.text)["events"] == "/bench/live/a-run/events"
    assert client().get("/live/a-run/lines").json()["lines"] == []
    policy = page.headers["content-security-policy"]
    inline = re.findall(r"<(?:script|style)>(.*?)</(?:script|style)>", page.text, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in inline]
    assert len(inline) == 4
    assert all(f"'sha256-{digest}'" in policy for digest in digests)
    assert "unsafe" not in policy
    assert "connect-src 'self'" in policy
    assert not re.search(
        r"""\s(style|on\w+)=["']""",
        re.sub(r"<(script|style)>.*?</\1>", "", page.text, flags=re.DOTALL),
    )


def test_a_name_in_the_page_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Templates escape what they are given; settings stand there as JSON without a tag."""
    html = page_of("<i>&")
    assert '<h1 id="cell">&lt;i&gt;&amp;</h1>' in html
    assert settings_in(html)["run"] == "<i>&"
    assert "&amp;&amp;" not in html
    monkeypatch.setattr(live_page, "public_prefix", lambda: "</script><b>")
    assert "</script><b>" not in page_of("a-run")


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
        "/runs/outside/secret",
        "/live/outside/../lines",
        "/live/..%2f..%2fsecret/lines",
    ],
)
def test_no_path_leads_out(runs: Path, path: str) -> None:
    """Neither dots, nor links, nor absolute paths reach a file outside the run folder."""
    reply = client().get(path)

    assert reply.status_code in (404, 422)
    assert "secret" not in reply.text or "no file" in reply.text


PATHS = (
    "/report/daily_spike_rehearsal/manual__other",
    "/runs/a-run/report.html",
    "/live/a-run/lines",
    "/live/a-run/events",
    "/report/scenario_run/manual__other",
)


@pytest.mark.parametrize("path", PATHS)
def test_a_stranger_is_refused_and_nobody_writes(runs: Path, path: str) -> None:
    """Without Airflow's log-in nothing is served, and only reading is offered."""
    assert client(is_open=False).get(path).status_code in (401, 403)
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert client().request(method, path).status_code == 405


def test_no_route_is_open(runs: Path) -> None:
    """Every route of the application asks for the right to read the runs of scenario_run."""
    routes = [route for route in report_app().routes if isinstance(route, APIRoute)]

    assert len(routes) == len(PATHS)
    for route in routes:
        asked = [dependency.call for dependency in route.dependant.dependencies]
        assert any("requires_access_dag" in getattr(call, "__qualname__", "") for call in asked)


@pytest.mark.parametrize("place", ["", "second-group/"])
def test_a_manifest_that_may_have_secrets_is_not_served(runs: Path, place: str) -> None:
    """Who may look at runs need not know the user's Secrets, by whatever name in the folder."""
    manifest = runs / "a-run" / place / "own-deployment.yaml"
    manifest.parent.mkdir(exist_ok=True)
    manifest.write_text("kind: Secret")
    (runs / "a-run" / "link.yaml").symlink_to(manifest)

    replies = [
        client().get(f"/runs/a-run/{path}") for path in (f"{place}{manifest.name}", "link.yaml")
    ]

    assert [reply.status_code for reply in replies] == [404, 404]
