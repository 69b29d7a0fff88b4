"""A part of Airflow that does not work is named, and nobody is told that Airflow runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from lagbench.adapters.runs import run_folder
from lagbench.cli import main
from lagbench.errors import ExitCode, NotReady, StillRunning
from lagbench.orchestrator import airflow_server, dag_run
from lagbench.orchestrator.airflow_environment import (
    admin_password,
    airflow_environment,
    airflow_home,
    empty_temporary_folder,
    passwords_file,
)
from lagbench.orchestrator.airflow_server import AirflowServer, failed_parts, require_healthy
from lagbench.orchestrator.dag_run import ProcessDagRun, ServerDagRun

SERVER = AirflowServer(pid=1, started_at=0.0, url="http://127.0.0.1:1", user="admin")

PARTS = ("metadatabase", "scheduler", "triggerer", "dag_processor")


def answering(monkeypatch: pytest.MonkeyPatch, answer: int | None, **statuses: str | None) -> None:
    """Let the API answer with that code and these statuses, healthy by default; None: silence."""

    def get(url: str, **_: Any) -> httpx.Response:
        request = httpx.Request("GET", url)
        if answer is None:
            raise httpx.ConnectError("refused", request=request)
        body = {part: {"status": statuses.get(part, "healthy")} for part in PARTS}
        return httpx.Response(answer, request=request, json=body)

    monkeypatch.setattr(airflow_server.httpx, "get", get)


@pytest.mark.parametrize(
    ("answer", "statuses", "failed"),
    [
        (200, {}, []),
        (200, {"scheduler": "unhealthy"}, ["scheduler"]),
        (200, {"triggerer": None, "dag_processor": "unhealthy"}, ["triggerer", "dag_processor"]),
        (500, {}, ["api-server"]),
        (None, {}, ["api-server"]),
    ],
)
def test_the_parts_that_do_not_work_are_named(
    answer: int | None,
    statuses: dict[str, str | None],
    failed: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Null means that the part has never run."""
    answering(monkeypatch, answer, **statuses)

    assert failed_parts(SERVER) == failed


@pytest.mark.parametrize("failed", [[], ["scheduler", "triggerer"]])
def test_status_and_the_wait_name_them(
    failed: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``status`` ends with exit code 3, as it does without a bench."""
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(airflow_server, "running_server", lambda _: SERVER)
    monkeypatch.setattr(airflow_server, "failed_parts", lambda _: failed)
    monkeypatch.setattr(sys, "argv", ["lagbench", "status"])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == ExitCode.NOT_READY
    assert ("does not work: scheduler, triggerer;" in capsys.readouterr().out) is bool(failed)
    if failed:
        with pytest.raises(NotReady, match="scheduler, triggerer"):
            require_healthy(SERVER, tmp_path, limit_seconds=-1)
    else:
        require_healthy(SERVER, tmp_path, limit_seconds=-1)


def test_a_part_that_is_started_again_is_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its supervisor needs some seconds for it."""
    answers = [["scheduler"], []]
    monkeypatch.setattr(airflow_server, "failed_parts", lambda _: answers.pop(0))
    monkeypatch.setattr(airflow_server.threading, "Event", lambda: type("E", (), {"wait": id}))

    require_healthy(SERVER, tmp_path)

    assert answers == []


class Airflow:
    """Answers in their order: a state of the run, a status code, or None for silence."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stand in for the server's API and for the clock."""
        self.answers: list[str | int | None] = ["queued"]
        self.tokens, self.now = 0, 0.0
        self.failed_parts: list[str] = []
        monkeypatch.setattr(dag_run.httpx, "request", self.request)
        monkeypatch.setattr(dag_run, "api_token", self.token)
        monkeypatch.setattr(dag_run, "failed_parts", lambda _: self.failed_parts)
        monkeypatch.setattr(dag_run.time, "monotonic", lambda: self.now)

    def token(self, *_: Any) -> str:
        """Count the logins."""
        self.tokens += 1
        return f"token-{self.tokens}"

    def request(self, method: str, url: str, **_: Any) -> httpx.Response:
        """Give the next answer."""
        answer, request = self.answers.pop(0), httpx.Request(method, url)
        if answer is None:
            raise httpx.ReadTimeout("no answer", request=request)
        if isinstance(answer, int):
            return httpx.Response(answer, request=request, text="not now")
        return httpx.Response(200, request=request, json={"state": answer})

    def looks(
        self, run: ServerDagRun, *answers: str | int | None, apart: float = 2.0
    ) -> list[bool]:
        """Look at the run once for each answer."""
        self.answers = list(answers)
        found = []
        while self.answers:
            self.now += apart
            found.append(run.is_finished())
        return found


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    """Return the stand-in of a server."""
    return Airflow(monkeypatch)


@pytest.fixture
def run(airflow: Airflow, tmp_path: Path) -> ServerDagRun:
    """Return a run that was triggered on the server."""
    assert airflow.answers == ["queued"]
    return triggered(tmp_path, "spike-1")


def triggered(state_dir: Path, run_id: str) -> ServerDagRun:
    """Return a run after its trigger."""
    found = ServerDagRun(SERVER, state_dir, {"run_id": run_id})
    found.start()
    return found


def test_a_silent_server_does_not_end_the_run(airflow: Airflow, run: ServerDagRun) -> None:
    """The run continues on the server, whether it times out or answers with a 503."""
    found = airflow.looks(run, "running", None, 503, "running", None, "success")

    assert found == [False, False, False, False, False, True]
    assert airflow.tokens == 1


def test_a_server_that_stays_silent_is_given_up_with_the_place_to_look(
    airflow: Airflow, run: ServerDagRun
) -> None:
    """After two minutes the user is told that the run may continue."""
    with pytest.raises(StillRunning, match=r"http.*cli__spike-1"):
        airflow.looks(run, None, None, None, apart=50.0)


def test_a_run_does_not_wait_for_a_dead_scheduler(airflow: Airflow, run: ServerDagRun) -> None:
    """Two minutes without a part end the wait, with its name; one that came back does not."""
    airflow.failed_parts = ["scheduler"]
    airflow.looks(run, "queued", "queued", apart=50.0)
    airflow.failed_parts = []
    airflow.looks(run, "running", apart=50.0)
    airflow.failed_parts = ["scheduler", "triggerer"]

    with pytest.raises(StillRunning, match=r"scheduler, triggerer.*cli__spike-1"):
        airflow.looks(run, "queued", "queued", "queued", apart=50.0)


def test_an_expired_token_is_renewed(airflow: Airflow, run: ServerDagRun) -> None:
    """A long run outlives its login. The server, which also measures, is asked once a second."""
    airflow.answers = []
    airflow.now += 0.5
    assert not run.is_finished()
    airflow.answers, airflow.now = [401, "success"], 10.0

    assert run.is_finished()
    assert airflow.tokens == 2


def test_a_trigger_without_an_answer_may_have_arrived(airflow: Airflow, tmp_path: Path) -> None:
    """The run is followed if it appears, and given up if it does not."""
    airflow.answers = [None]
    slow = triggered(tmp_path, "spike-2")
    airflow.answers = [None]
    lost = triggered(tmp_path, "spike-3")

    assert airflow.looks(slow, 404, "running", "success") == [False, False, True]
    with pytest.raises(NotReady, match="rejected GET"):
        airflow.looks(lost, 404, 404, 404, apart=50.0)


def test_what_is_rejected_ends_at_once(airflow: Airflow, run: ServerDagRun, tmp_path: Path) -> None:
    """A run that the server does not know was deleted there; wrong parameters are no silence."""
    with pytest.raises(NotReady, match="rejected GET"):
        airflow.looks(run, 404)
    airflow.answers = [400]
    with pytest.raises(NotReady, match="rejected POST"):
        triggered(tmp_path, "spike-4")


@pytest.mark.parametrize(
    ("name", "of_shell", "ours", "wins"),
    [
        # An Airflow connection set by the user replaces the embedded bench's.
        ("AIRFLOW_CONN_KAFKA_DEFAULT", "theirs", "ours", "theirs"),
        # The shell's kubeconfig may name a real cluster, and its home has another database.
        ("KUBECONFIG", "/somewhere/production", "embedded", "embedded"),
        ("AIRFLOW_HOME", "/home/me/airflow", None, None),
    ],
)
def test_what_of_a_user_s_shell_reaches_airflow(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    name: str,
    of_shell: str,
    ours: str | None,
    wins: str | None,
) -> None:
    """Only what is meant for it."""
    monkeypatch.setenv(name, of_shell)
    environment = airflow_environment(tmp_path, {} if ours is None else {name: ours})

    assert environment[name] == (wins or str(airflow_home(tmp_path)))


@pytest.mark.parametrize(("of_shell", "wins"), [(None, "runs"), ("mine", "mine")])
def test_airflow_writes_its_runs_where_the_command_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_shell: str | None, wins: str
) -> None:
    """Of a wheel, that is below the command's folder, whatever Airflow's own is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_folder, "HOME", tmp_path)
    monkeypatch.delenv("LAGBENCH_RUNS_DIR", raising=False)
    if of_shell is not None:
        monkeypatch.setenv("LAGBENCH_RUNS_DIR", of_shell)

    assert airflow_environment(tmp_path, {})["LAGBENCH_RUNS_DIR"] == str(tmp_path / wins)


def test_the_password_is_made_once_and_private(tmp_path: Path) -> None:
    """The log-in password stays the same and only its owner can read it."""
    first = admin_password(tmp_path)

    assert admin_password(tmp_path) == first
    assert passwords_file(tmp_path).stat().st_mode & 0o077 == 0


def test_what_tasks_left_is_gone_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's processes have a folder for temporary files, private and emptied at each start."""
    monkeypatch.delenv("TMPDIR", raising=False)  # a user's own would win
    folder = Path(airflow_environment(tmp_path, {})["TMPDIR"])
    empty_temporary_folder(tmp_path)
    (folder / "key_of_a_kubeconfig").touch()
    empty_temporary_folder(tmp_path)

    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o077 == 0


FAILED_FIRST_TASK = """\
[DAG TEST] starting task_id=plan_cell map_index=-1
AirflowFailException: partitions = 0 is not allowed
[DAG TEST] end task task_id=plan_cell map_index=-1
"""

LAST_TASK = """\
[DAG TEST] starting task_id=require_verdict map_index=-1
AirflowFailException: the run ended before plan_cell had made its run folder
DagRun failed
"""


@pytest.mark.parametrize("end", ["", LAST_TASK])
def test_the_tail_of_the_log_explains_the_failure(tmp_path: Path, end: str) -> None:
    """The last task of a failed run only repeats that it failed: its lines are left out."""
    run = ProcessDagRun(tmp_path, {}, {"run_id": "never"})
    run.log_path.parent.mkdir(parents=True)
    run.log_path.write_text(FAILED_FIRST_TASK + end)

    assert run.log_tail(2).splitlines() == FAILED_FIRST_TASK.splitlines()[-2:]
