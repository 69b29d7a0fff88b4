"""The pages of the bench in Airflow's own API server: behind a path, from two workers."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from tests.eventually import eventually
from tests.fakes.nights import rehearse
from tests.fakes.user_environment import user_environment

from lagbench.embedded.child_server import accepts_connections, free_port
from lagbench.project import PROJECT_ROOT
from localkube.processes import end_process, start_tied

pytestmark = pytest.mark.slow
PREFIX = "/team/air"
NIGHT = "scheduled__2026-11-22T03:30:00+00:00"
CELL = f"{PREFIX}/bench/history?cell=quick_spike/p/%E2%80%93"
PAGES = ("runs", "history", "experiments", "advice", "plan")


@dataclass(frozen=True)
class Server:
    """An API server of two workers, what its process has told, and the runs folder."""

    client: httpx.Client
    workers: list[psutil.Process]
    told: dict[str, str]
    runs: Path

    @contextmanager
    def by(self, worker: int) -> Iterator[httpx.Client]:
        """Let one worker alone answer: the other one is stopped meanwhile."""
        other = self.workers[1 - worker]
        other.suspend()
        try:
            yield self.client
        finally:
            other.resume()

    def token(self, user: str) -> dict[str, str]:
        """Return the header of a user who has logged in; ``admin`` does it now."""
        token = self.told.get(user)
        if token is None:
            log_in = {"username": user, "password": "secret"}
            token = self.client.post(f"{PREFIX}/auth/token", json=log_in).json()["access_token"]
        return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve a run with a report, a run in progress, and nights of which one can be accepted."""
    home = tmp_path_factory.mktemp("airflow")
    runs, told, passwords = (home / name for name in ("runs", "told.json", "passwords.json"))
    for name in ("a-run", "live-run"):
        (runs / name).mkdir(parents=True)
    (runs / "a-run" / "report.html").write_text("<p>the report</p>")
    (runs / "a-run" / "conf.json").write_text(json.dumps({"dag_run": f"rehearsal__{NIGHT}"}))
    for number in (1, 2):
        rehearse(runs, f"night-{number}", created_at=number)
    passwords.write_text(json.dumps({"admin": "secret"}))
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__API__BASE_URL": f"https://example.org{PREFIX}",
        "AIRFLOW__API_AUTH__JWT_SECRET": "secret" * 11,
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT_ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT_ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        "LAGBENCH_RUNS_DIR": str(runs),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    script, port = Path(__file__).with_name("behind_a_prefix.py"), free_port()
    command = [sys.executable, str(script), str(told), str(port)]
    with (home / "server.log").open("wb") as log:
        process = start_tied(command, log=log, env=user_environment() | settings)

    def workers() -> list[psutil.Process]:
        assert process.poll() is None, (home / "server.log").read_text()[-3000:]
        children = psutil.Process(process.pid).children() if accepts_connections(port) else []
        return [one for one in children if "spawn_main" in " ".join(one.cmdline())]

    try:
        both = eventually(workers, "an API server", within_seconds=600)
        options: dict[str, Any] = {"limits": httpx.Limits(max_keepalive_connections=0)}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120, **options) as client:
            yield Server(client, both, json.loads(told.read_text()), runs)
    finally:
        end_process(process.pid, grace_seconds=20)
        process.wait()


@pytest.mark.parametrize("worker", [0, 1])
def test_a_night_s_tab_leads_to_its_report_behind_a_prefix(server: Server, worker: int) -> None:
    """Airflow serves all pages under the path of base_url, to users with the right to read runs."""
    place = server.told["tab"].replace("{DAG_ID}", "daily_spike_rehearsal")
    tab = place.replace("{RUN_ID}", NIGHT.replace("+", "%2B"))
    bench, lines = f"{PREFIX}/bench", f"{PREFIX}/bench/live/a-run/lines"
    report = f"{bench}/runs/a-run/report.html"
    admin, viewer, nobody = map(server.token, ("admin", "viewer", "nobody"))
    pages = [f"{bench}/{name}" for name in PAGES]
    with server.by(worker) as browser:
        assert tab.startswith(f"{bench}/report/daily_spike_rehearsal/")
        assert browser.get(tab).status_code == 401
        assert browser.get(tab, headers=admin).headers["location"] == report
        assert browser.get(report, headers=admin).text == "<p>the report</p>"
        assert browser.get(lines, headers=admin).json()["report"]
        for path in (tab, report, lines, lines.replace("/lines", "/events"), *pages):
            assert browser.get(path, headers=nobody).status_code == 403
        assert [browser.get(path, headers=admin).status_code for path in pages] == [200] * 5
        seen = [browser.get(path, headers=viewer).status_code for path in pages]
        assert seen == [200, 200, 200, 200, 403]
        assert browser.get(pages[0], headers=admin).text.count(f'href="{bench}/') >= 5
        night = browser.get(place.replace("{RUN_ID}", "a_night"), headers=admin).text
        of_night = ["rehearsal__a_night", "rehearsal__a_night__cell_1", "rehearsal__a_night__try_2"]
        assert re.findall(r"cell=([^\"]+)\"", night) == of_night
        for who, run, status in ((admin, "a-run", 400), (viewer, "night-2", 403)):
            reply = browser.post(f"{bench}/baseline", data={"run": run}, headers=who)
            assert reply.status_code == status


def test_no_worker_keeps_what_the_other_has_to_know(server: Server) -> None:
    """An accepted baseline, a run that has come since the start, and a stream that breaks off."""
    admin = server.token("admin")
    events, live = f"{PREFIX}/bench/live/live-run/events", server.runs / "live-run" / "live.jsonl"

    def next_lines(browser: httpx.Client, *, after: int) -> Any:
        headers = {**admin, "Last-Event-ID": str(after)}
        with browser.stream("GET", events, headers=headers) as reply:
            lines = (line for line in reply.iter_lines() if line.startswith("data: "))
            return json.loads(next(lines).removeprefix("data: "))

    live.write_text('{"a":1}\n')
    with server.by(0) as browser:
        assert browser.get(CELL, headers=admin).text.count("Accept as baseline") == 1
        begun = next_lines(browser, after=0)
    with server.by(1) as browser:
        accepted = browser.post(f"{PREFIX}/bench/baseline", data={"run": "night-2"}, headers=admin)
        assert accepted.status_code == 303
    rehearse(server.runs, "night-3", created_at=3)
    with live.open("a") as file:
        file.write('{"a":2}\n')
    for worker in (0, 1):
        with server.by(worker) as browser:
            page = browser.get(CELL, headers=admin).text
            assert re.findall(r"Baseline: <b>([^<]+)<", page) == ["night-2"]
            assert "night-3" in page
            assert next_lines(browser, after=begun["next"])["lines"] == [{"a": 2}]
