"""The pages of all runs: addresses, rights, and who accepts a baseline."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.fakes.advices import advice
from tests.fakes.compared_runs import write_run
from tests.fakes.nights import rehearse, write_night

from lagbench.catalog.catalog import checked_cell
from lagbench.catalog.conf import settings_of
from lagbench.project import PROJECT_ROOT
from lagbench.report import plan_page
from lagbench.results.advice_files import AdviceFolder
from lagbench.results.compared_runs import read_baseline
from lagbench.results.history import update_history
from lagbench_airflow.pages import bench_views
from lagbench_airflow.pages.bench_views import bench_app
from lagbench_airflow.params import scenario_run_params

from airflow.api_fastapi.core_api.security import get_user  # isort: skip
from fastapi import HTTPException  # isort: skip

OWN = {"sec-fetch-site": "same-origin"}


class User:
    """A user of Airflow."""

    def get_name(self) -> str:
        """Return the name."""
        return "ada"


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a runs folder with two nights, of which the first is the baseline."""
    root = tmp_path / "runs"
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(root))
    monkeypatch.setattr(bench_views, "started_by", lambda _: {})
    for number in (1, 2):
        rehearse(root, f"night-{number}", created_at=number)
        update_history(write_run(root, f"run-{number}", created_at=number))
    return root


def client() -> TestClient:
    """Return a client whose user is ada, with every right."""
    app = bench_app(is_open=True)
    app.dependency_overrides[get_user] = User
    return TestClient(app, follow_redirects=False)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/runs", 200),
        ("/runs?sort=-drain_seconds&q=night&page=3", 200),
        ("/compare?run=run-1&run=run-2", 200),
        ("/compare?run=run-1", 400),
        ("/compare?run=run-1&run=run-9", 400),
        ("/compare?run=run-1&run=../run-2", 400),
        ("/history", 200),
        ("/history?cell=quick_spike/p/%E2%80%93", 200),
        ("/history?cell=none", 400),
        ("/experiments", 200),
        ("/experiments/none", 404),
        ("/experiments/../night-1", 404),
        ("/advice", 200),
        ("/advice/none/advice.html", 404),
        ("/plan", 200),
        ("/plan?scenario=none", 400),
        ("/plan?scenario=/etc/passwd", 400),
        ("/earlier/scenario_run/dag-run-of-night-2", 404),
    ],
)
def test_every_page_answers(nights: Path, path: str, status: int) -> None:
    """A wrong address gets a page that says why; no page may be in a frame of another site."""
    reply = client().get(path)

    assert reply.status_code == status
    if status != 404 or "Content-Security-Policy" in reply.headers:
        assert reply.headers["content-security-policy"] == "frame-ancestors 'self'"


@pytest.mark.parametrize(
    ("dag_id", "place"),
    [
        ("scenario_run", "runs"),
        ("daily_spike_rehearsal", "history"),
        ("experiment_step_dip", "experiments"),
        ("experiment_..", "experiments"),
        ("advise", "advice"),
        ("own", "runs"),
    ],
)
def test_the_tab_of_a_dag_leads_to_its_page(nights: Path, dag_id: str, place: str) -> None:
    """A nightly without a night shows the cells."""
    reply = client().get(f"/dag/{dag_id}")

    assert reply.headers["location"] == f"/bench/{place}"


def test_the_newest_night_s_cell_is_the_nightly_s_page(nights: Path) -> None:
    """A night is known by the Dag run that it triggered."""
    folder = write_night(nights, "night-3", created_at=3)
    folder.update_manifest(conf={"dag_run": "rehearsal__scheduled__3"})

    place = client().get("/dag/daily_spike_rehearsal").headers["location"]

    assert place == "/bench/history?cell=quick_spike%2Fp%2F%E2%80%93"


def test_a_dag_run_is_compared_with_baseline_and_last_run(nights: Path) -> None:
    """As they were known when it was judged."""
    of_cell = {"measures": {}}
    runs = [{"name": "last run", "run_id": "run-1", **of_cell}]
    runs.append({"name": "baseline", "run_id": "night-1", **of_cell})
    (nights / "night-2" / "earlier_runs.json").write_text(json.dumps({"runs": runs}))

    place = client().get("/earlier/scenario_run/dag-run-of-night-2").headers["location"]

    assert place == "/bench/compare?run=night-1&run=run-1&run=night-2"


def test_an_accepted_baseline_names_its_user(nights: Path) -> None:
    """The page of the cell follows, and says it."""
    reply = client().post("/baseline", data={"run": "night-2"}, headers=OWN)
    page = client().get(reply.headers["location"].removeprefix("/bench"))
    record = read_baseline(bench_views.RunFolder(nights / "night-2"))

    assert reply.status_code == 303
    assert record is not None
    assert record.accepted_by == "ada"
    assert "night-2 is the baseline now." in page.text
    assert "<td>ada</td>" in page.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (OWN, 303),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site", "origin": "http://testserver"}, 403),
        ({"origin": "http://testserver"}, 303),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({}, 403),
        ({"authorization": "Bearer token"}, 303),
        ({"authorization": "Basic password", "sec-fetch-site": "cross-site"}, 403),
    ],
)
def test_only_a_page_of_the_bench_accepts(
    nights: Path, headers: dict[str, str], status: int
) -> None:
    """The cookie of a user is sent with requests of other sites, too."""
    reply = client().post("/baseline", data={"run": "night-2"}, headers=headers)

    assert reply.status_code == status


def test_a_link_shows_no_text_from_elsewhere(nights: Path) -> None:
    """The difference of two policies would show it."""
    (nights / "run-2" / "policy.yaml").symlink_to("/etc/passwd")

    assert client().get("/compare?run=run-1&run=run-2").status_code == 400


def test_only_a_rehearsal_that_passed_is_accepted(nights: Path) -> None:
    """The gate's own rule; nothing is written."""
    reply = client().post("/baseline", data={"run": "run-2"}, headers=OWN)

    assert reply.status_code == 400
    assert not (nights / "run-2" / "baseline.json").exists()


def test_without_the_right_nothing_can_be_accepted(
    nights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is there a button; the refusal is a page that names the right."""

    def refuse(request: Any = None, user: Any = None) -> None:
        raise HTTPException(403, "Forbidden")  # as Airflow does

    app = client().app
    app.dependency_overrides[bench_views.MAY_ACCEPT] = refuse  # type: ignore[attr-defined]
    del app.dependency_overrides[bench_views.has_right_to_accept]  # type: ignore[attr-defined]
    monkeypatch.setattr(bench_views, "MAY_ACCEPT", refuse)
    visitor = TestClient(app)

    refused = visitor.post("/baseline", data={"run": "night-2"}, headers=OWN)
    assert refused.status_code == 403
    assert 'href="/bench/history"' in refused.text
    assert "right to change runs of daily_spike_rehearsal" in refused.text
    page = visitor.get("/history?cell=quick_spike/p/%E2%80%93")
    assert page.status_code == 200
    assert "Accept as baseline" not in page.text


def test_an_advice_is_listed_with_its_page(nights: Path) -> None:
    """The page itself is sandboxed, as a report is."""
    folder = AdviceFolder(nights / "_advice" / "a-1")
    folder.path.mkdir(parents=True)
    folder.advice.write_text(advice().model_dump_json())
    folder.page.write_text("<p>the front</p>")

    listed, page = (client().get(path) for path in ("/advice", "/advice/a-1/advice.html"))

    assert 'href="/bench/advice/a-1/advice.html"' in listed.text
    assert page.text == "<p>the front</p>"
    assert page.headers["content-security-policy"].startswith("sandbox")


def test_an_experiment_is_shown_with_its_progress(nights: Path) -> None:
    """Before its result, and with it; a folder of another version is left out."""
    kept = PROJECT_ROOT / "docs" / "findings" / "step_dip"
    folder = nights / "_experiments" / "step_dip" / "20261126-010306-370000"
    shutil.copytree(kept, folder)
    (folder / "result.json").unlink()
    broken = folder.with_name("20261127-000000-000000")
    broken.mkdir()
    (broken / "execution.json").write_text("{}")

    begun = client().get("/experiments").text
    shutil.copy(kept / "result.json", folder)
    page = client().get(f"/experiments/step_dip/{folder.name}").text

    assert f'href="/bench/experiments/step_dip/{folder.name}"' in begun
    assert '<progress max="12" value="12"' in begun
    assert "no result yet" in begun
    assert "<svg" in page
    assert "range minus cooperative, 6 pairs" in page


def test_a_plan_predicts_a_cell(nights: Path) -> None:
    """With its pictures, its needs, the findings of its policy, and the conf for Trigger."""
    reply = client().get("/plan?scenario=hello&seed=3")
    given_up = client().get("/plan?scenario=hello&overrides=abort.lag_records=1")

    assert reply.status_code == 200
    assert "abort.lag_records 1:" in given_up.text
    assert reply.text.count('<svg class="lines"') == 2
    assert "{&#34;scenario&#34;: &#34;hello&#34;, &#34;seed&#34;: 3}" in reply.text


def test_a_plan_takes_what_trigger_takes(nights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each field of the Dag's form, with its choices, files of allowed folders, and effect."""
    own = nights.parent / "own.yaml"
    shutil.copy(PROJECT_ROOT / "include/catalog/scenarios/quick_spike.yaml", own)
    monkeypatch.setenv("LAGBENCH_ALLOWED_FOLDERS", str(own.parent))
    asked = {
        "scenario": str(own),
        "policy": "lag-quick",
        "seed": 3,
        "rate": 50.5,
        "spike_mult": 4,
        "spike_hold_seconds": 7,
        "balancer": "range",
        "graceful_shutdown": "off",
        "commit": "auto",
        "overrides": "tail=none",
    }
    planned: list[Any] = []

    def render(*given: Any, **_: Any) -> str:
        planned.extend(given)
        return ""

    monkeypatch.setattr(plan_page, "render_plan", render)

    client().get("/plan", params=asked | {"ask": "false"})

    names = {*scenario_run_params()} - {"keep_bench", "ask", "run_id"}
    _, fields, cell = planned
    assert {*asked} == {*fields} == names
    assert str(own) in fields["scenario"]["enum"]
    assert cell == checked_cell(own, policy="lag-quick", overrides=settings_of(asked))
    assert cell.scenario.profile.spike_hold_seconds == 7


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("scenario=hello&rates=5", "rates"),
        ("rates=5", "rates"),
        ("scenario=hello&rate=a", "profile.rate_per_second"),
        ("scenario=hello&rate=[", "field rate"),
    ],
)
def test_a_plan_drops_nothing_of_its_address(nights: Path, query: str, named: str) -> None:
    """One message names the field; the form stays as it was filled in."""
    reply = client().get(f"/plan?{query}")

    assert reply.status_code == 400
    assert named in reply.text.partition('role="alert"')[2].partition("</section>")[0]
    assert '<select name="balancer">' in reply.text
    assert ('value="hello" list=' in reply.text) is ("scenario=" in query)
