"""Who is told of a verdict: the note of the Dag run, and mail of a night that failed or is late."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes.run_folder_builder import quick_spike_run
from tests.unit.plugins.conftest import RUN_ID

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.results.gate import COMPARISON_FILE
from lagbench.results.measure_run import judge_run
from lagbench_airflow import dag_run_note
from lagbench_airflow.dag_run_note import MARK, MOST_CHARACTERS, on_dag_run_failed
from lagbench_airflow.night_notifier import NightNotifier
from lagbench_airflow.params import MORE_CELLS
from lagbench_airflow.run_lookup import NIGHTLY_DAG, SCENARIO_DAG

NIGHT, TEAM = "scheduled__a", "team@example.test"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """Return the folder of a night's judged run."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    content = quick_spike_run()
    content.run_id = RUN_ID
    content.manifest |= {"conf": {"dag_run": f"rehearsal__{NIGHT}"}}
    made = content.write(tmp_path)
    judge_run(made)
    return made


def note_of(dag_id: str, run_id: str, before: str | None = None) -> str | None:
    """Return the note after the end of a Dag run."""
    run: Any = SimpleNamespace(dag_id=dag_id, run_id=run_id, note=before, conf={})
    on_dag_run_failed(run, "")
    note: str | None = run.note
    return note


def test_the_note_has_the_verdict_and_three_figures(folder: RunFolder) -> None:
    """With the link to the report, and the gate's answer on a night."""
    status = folder.read_json(folder.verdict)["status"]
    gate = {"status": "regressed", "reasons": ["flips 2, at most 0"]}

    note = note_of(SCENARIO_DAG, f"rehearsal__{NIGHT}") or ""
    folder.write_json(COMPARISON_FILE, gate)
    of_night = note_of(NIGHTLY_DAG, NIGHT) or ""

    assert note.startswith(f"{MARK} {status}")
    for figure in ("Time lag p99 ", "Lag drain ", "Pod time ", f"/runs/{RUN_ID}/report.html"):
        assert figure in note
    assert "gate: regressed; flips 2, at most 0" in of_night
    assert RUN_ID in of_night


def test_what_a_person_wrote_stays(folder: RunFolder) -> None:
    """Ours comes after it, once, and never beyond Airflow's limit."""
    dag_run = f"rehearsal__{NIGHT}"
    first = note_of(SCENARIO_DAG, dag_run, "mine") or ""

    assert first.startswith(f"mine\n\n{MARK}")
    assert note_of(SCENARIO_DAG, dag_run, first) == first
    for length in (MOST_CHARACTERS - 40, MOST_CHARACTERS):
        found = note_of(SCENARIO_DAG, dag_run, "x" * length) or ""
        assert found.startswith("x" * length)
        assert len(found) <= MOST_CHARACTERS


@pytest.mark.parametrize(("dag_id", "run_id"), [(SCENARIO_DAG, "other"), ("mine", NIGHT)])
def test_a_run_without_a_folder_has_no_note(folder: RunFolder, dag_id: str, run_id: str) -> None:
    """It is another Dag's, or it never got one."""
    assert folder.verdict.is_file()
    assert note_of(dag_id, run_id) is None


def test_the_listener_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs in the scheduler."""
    monkeypatch.setattr(dag_run_note, "verdicts_of", lambda *_: 1 / 0)

    assert note_of(SCENARIO_DAG, "a") is None


@dataclass
class MailServer:
    """The least of SMTP, on loopback; it keeps what it gets."""

    port: int = 0
    mails: list[Message] = field(default_factory=list)
    _ready: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Listen in a thread."""
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_until_complete, args=(self._run(),)).start()
        self._ready.wait()

    def stop(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._done.set)

    async def _run(self) -> None:
        self._done = asyncio.Event()
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            self._ready.set()
            await self._done.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        while line := await reader.readline():
            word = line.split()[0].upper()
            writer.write(
                {b"DATA": b"354 go on\r\n", b"QUIT": b"221 bye\r\n"}.get(word, b"250 ok\r\n")
            )
            if word == b"DATA":
                self.mails.append(message_from_bytes(await reader.readuntil(b"\r\n.\r\n")))
                writer.write(b"250 ok\r\n")
            if word == b"QUIT":
                break
        writer.close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    """Provide a server that the connection names."""
    found = MailServer()
    found.start()
    extra = {"from_email": "bench@example.test", "disable_ssl": True, "disable_tls": True}
    connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": found.port, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(connection))
    yield found
    found.stop()


def text_of(mail: Message) -> str:
    """Return the text of the first part."""
    part = next(part for part in mail.walk() if part.get_content_type() == "text/html")
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    return content.decode()


def test_a_night_that_failed_is_mailed(folder: RunFolder, server: MailServer) -> None:
    """As the Dag processor calls it: with the verdict, why the gate failed, and the report."""
    gate = {"status": "regressed", "reasons": ["flips <2>"]}
    folder.write_json(COMPARISON_FILE, gate)

    NightNotifier(to=[TEAM])({"run_id": NIGHT, "reason": "task_failure"})

    (mail,) = server.mails
    assert (mail["subject"], mail["to"]) == (f"lagbench: {NIGHTLY_DAG} has failed", TEAM)
    assert "gate: regressed; flips &lt;2&gt;" in text_of(mail)


def cells_without_a_folder(mail: Message) -> list[str]:
    """Return the cells that a mail names without a run, each with a link to the night's tab."""
    tab = f"/bench/report/{NIGHTLY_DAG}/{NIGHT}"
    return re.findall(rf'<li>([^:<]*): no run folder[^<]*<a href="[^"]*{tab}"', text_of(mail))


def test_a_cell_that_never_had_a_folder_is_mailed(folder: RunFolder, server: MailServer) -> None:
    """It was refused, its bench did not come up, or it has not begun; another cell's try counts."""
    other = folder.path.parent / "other"
    other.mkdir()
    (other / "conf.json").write_text(f'{{"dag_run": "rehearsal__{NIGHT}__cell_1__try_2"}}')
    more = {MORE_CELLS: "hello\nbursty lag-quick"}

    NightNotifier(to=[TEAM])({"run_id": NIGHT, "dag_run": SimpleNamespace(conf=more)})

    (mail,) = server.mails
    assert cells_without_a_folder(mail) == ["bursty, lag-quick"]
    assert "other: no verdict" in text_of(mail)


def test_a_night_whose_cells_are_refused_is_mailed(folder: RunFolder, server: MailServer) -> None:
    """It has none, and the mail says which line is wrong."""
    shutil.rmtree(folder.path)
    wrong = SimpleNamespace(conf={MORE_CELLS: "one two three"})

    NightNotifier(to=[TEAM])({"run_id": NIGHT, "dag_run": wrong})

    (mail,) = server.mails
    assert "one two three" in text_of(mail)


def test_a_night_that_is_late_is_mailed(folder: RunFolder, server: MailServer) -> None:
    """As the triggerer awaits the callback of a DeadlineAlert."""
    folder.verdict.unlink()
    context: Any = {
        "dag_run": {"dag_run_id": NIGHT, "conf": {MORE_CELLS: "hello"}},
        "deadline": {"deadline_time": "2026-11-29 05:00:00+00:00"},
    }

    async def call() -> None:
        await NightNotifier(to=[TEAM], context=context)

    asyncio.run(call())

    (mail,) = server.mails
    assert mail["subject"] == f"lagbench: {NIGHTLY_DAG} is late: due 2026-11-29 05:00"
    assert "no verdict" in text_of(mail)
    assert cells_without_a_folder(mail) == ["hello, its own policy"]


def test_nobody_is_mailed_without_an_address(folder: RunFolder, server: MailServer) -> None:
    """The log has it."""
    NightNotifier(to=[])({"run_id": NIGHT})

    assert server.mails == []
    assert folder.verdict.is_file()


@pytest.mark.parametrize(("state", "mails"), [("running", 1), ("failed", 0), ("success", 0)])
def test_a_night_that_has_ended_is_not_late(
    folder: RunFolder, server: MailServer, state: str, mails: int
) -> None:
    """Airflow keeps the deadline of a Dag run that has failed, which was mailed then."""
    dag_run = {"dag_run_id": NIGHT, "state": state, "conf": {}}
    context: Any = {"dag_run": dag_run, "deadline": {"deadline_time": "2026-11-29 05:00"}}

    asyncio.run(NightNotifier(to=[TEAM]).async_notify(context))

    assert (len(server.mails), folder.verdict.is_file()) == (mails, True)
