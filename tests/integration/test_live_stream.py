"""The stream of live lines over HTTP, from two servers that share the run folders."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.eventually import eventually

from lagbench.embedded.child_server import free_port
from lagbench.project import PROJECT_ROOT
from localkube.processes import start_tied

pytestmark = pytest.mark.slow
RUN = "a-run"
START_SECONDS = 180.0


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of runs with one run in it."""
    root = tmp_path_factory.mktemp("runs")
    (root / RUN).mkdir()
    return root


@pytest.fixture
def live(runs: Path) -> Iterator[Path]:
    """Provide the live file of the run, with two lines."""
    path = runs / RUN / "live.jsonl"
    path.write_text('{"at":1}\n{"at":2}\n')
    yield path
    path.unlink()


@pytest.fixture(scope="module")
def servers(runs: Path) -> Iterator[tuple[str, str]]:
    """Provide the addresses of two servers that know nothing of each other."""
    with served(runs) as one, served(runs) as other:
        for address in (one, other):
            eventually(lambda: answers(address), "the server", within_seconds=START_SECONDS)  # noqa: B023
        yield one, other


@contextmanager
def served(runs: Path) -> Iterator[str]:
    """Run a server of the pages."""
    port = free_port()
    paths = [PROJECT_ROOT, PROJECT_ROOT / "plugins", PROJECT_ROOT / "include"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW")}
    environment |= {"LAGBENCH_RUNS_DIR": str(runs), "PYTHONPATH": os.pathsep.join(map(str, paths))}
    command = [sys.executable, "-m", "uvicorn", "tests.integration.live_server:app"]
    command += ["--port", str(port), "--timeout-graceful-shutdown", "1"]
    process = start_tied(command, env=environment, cwd=PROJECT_ROOT)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(120)


def answers(address: str) -> bool:
    """Return whether the server is up."""
    try:
        return httpx.get(f"{address}/live/{RUN}/lines", timeout=30).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


class Stream:
    """An open stream, read event by event."""

    def __init__(self, answer: httpx.Response) -> None:
        """Take the answer of a server."""
        self.headers = answer.headers
        self._lines = answer.iter_lines()

    def event(self) -> dict[str, Any]:
        """Return the next event with its name, id and data; wait for it."""
        fields: dict[str, str] = {}
        for line in self._lines:
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "data" in fields:
                return {**fields, "data": json.loads(fields["data"])}
            else:
                fields = {}
        raise AssertionError("the stream has ended")


@contextmanager
def stream(address: str, last_event: str | None = None) -> Iterator[Stream]:
    """Open a stream as a browser does, which sends the id of the last event that it has seen."""
    headers = {} if last_event is None else {"Last-Event-ID": last_event}
    url = f"{address}/live/{RUN}/events?from=0"
    with httpx.stream("GET", url, headers=headers, timeout=180) as answer:
        assert answer.status_code == httpx.codes.OK
        yield Stream(answer)


def instants(event: dict[str, Any]) -> list[int]:
    """Return the instants of an event's lines."""
    return [line["at"] for line in event["data"]["lines"]]


def append(path: Path, at: int) -> None:
    """Add a line as the follower does."""
    with path.open("a") as file:
        file.write(f'{{"at":{at}}}\n')


def test_a_stream_continues_on_any_server_until_the_run_ends(
    servers: tuple[str, str], runs: Path, live: Path
) -> None:
    """It begins with what is there; the last event's id is all that the other server needs."""
    with stream(servers[0]) as opened:
        assert opened.headers["content-type"].startswith("text/event-stream")
        assert opened.headers["cache-control"] == "no-store"
        assert instants(opened.event()) == [1, 2]
        append(live, 3)
        last = opened.event()
        assert instants(last) == [3]
    append(live, 4)
    append(live, 5)

    report = runs / RUN / "report.html"
    with stream(servers[1], last["id"]) as opened:
        assert instants(opened.event()) == [4, 5]
        report.write_text("<p>the report</p>")
        over = opened.event()
    report.unlink()
    assert (over["event"], over["data"]["report"]) == ("over", True)


def test_many_streams_are_served_at_once(servers: tuple[str, str], live: Path) -> None:
    """An open stream holds no other request up."""
    with stream(servers[0]) as one, stream(servers[0]) as two, stream(servers[0]) as three:
        for opened in (one, two, three):
            assert instants(opened.event()) == [1, 2]
        assert httpx.get(f"{servers[0]}/live/{RUN}/lines?from=9").json()["lines"] == [{"at": 2}]
