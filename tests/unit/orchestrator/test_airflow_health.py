"""A part of Airflow that does not work is named, and nobody is told that Airflow runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from lagbench.cli import main
from lagbench.errors import ExitCode, NotReady
from lagbench.orchestrator import airflow_server
from lagbench.orchestrator.airflow_server import AirflowServer, failed_parts, require_healthy

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
