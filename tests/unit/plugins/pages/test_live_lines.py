"""Live lines are read from an offset on, whole lines only."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow

from lagbench.results.served_files import MOST_BYTES, read_lines
from lagbench_airflow.pages.report_app import line_events

RUN = "a-run"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a run."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    (tmp_path / RUN).mkdir()
    return tmp_path / RUN


def seen(folder: Path, *, stream_seconds: float = 60.0) -> list[dict[str, Any]]:
    """Return the events of a stream that ends by itself, each with name, id and data."""

    async def collect() -> list[str]:
        return [text async for text in line_events(RUN, 0, stream_seconds=stream_seconds)]

    fields = [
        dict(line.split(": ", 1) for line in t.splitlines() if line) for t in asyncio.run(collect())
    ]
    return [{**field, "data": json.loads(field["data"])} for field in fields if "data" in field]


def make_stale(folder: Path) -> None:
    """Let the file look as if nobody had added a line for long."""
    os.utime(folder / "live.jsonl", (0, 0))


def test_a_run_without_lines_has_none_yet(folder: Path) -> None:
    """Before the follower starts the page waits; polling gets the same facts as a stream."""
    assert json.loads(read_lines(RUN, 0).as_json()) == {
        "next": 0, "report": False, "over": False, "failure": "", "lines": []
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "offset", "lines"),
    [
        ('{"at":1}\n{"at":2}\n', 9, ['{"at":2}']),
        # A line counts once its end is written.
        ('{"at":1}\n{"at"', 0, ['{"at":1}']),
        ('{"at":1}\n{"at"', 9, []),
        # An offset that no reading returned, or of another file, is not trusted.
        ('{"at":1}\n', 3, ['{"at":1}']),
        ('{"at":1}\n', 10, ['{"at":1}']),
        ('{"at":1}\n', 10**12, ['{"at":1}']),
        # Other separators of Unicode may stand in a name.
        ('{"name":"a\u2028b\x0bc\x85"}\n', 0, ['{"name":"a\u2028b\x0bc\x85"}']),
    ],
)
def test_reading_goes_on_at_the_offset(
    folder: Path, text: str, offset: int, lines: list[str]
) -> None:
    """Each reading returns the whole lines that came after the one before."""
    (folder / "live.jsonl").write_text(text)

    assert read_lines(RUN, offset).lines == lines


def test_a_long_file_comes_in_parts(folder: Path) -> None:
    """A reading is bounded; the next one continues behind it."""
    line = json.dumps({"at": "x" * 1000}) + "\n"
    (folder / "live.jsonl").write_text(line * 1000)

    first = read_lines(RUN, 0)

    assert len("\n".join(first.lines)) < MOST_BYTES
    assert first.next_offset == len(first.lines) * len(line)


def test_a_link_to_another_file_is_not_followed(folder: Path, tmp_path: Path) -> None:
    """A live file that leads out of its run folder has no lines."""
    (tmp_path / "secret").write_text("secret\n")
    (folder / "live.jsonl").symlink_to(tmp_path / "secret")

    assert read_lines(RUN, 0).lines == []


def test_an_event_s_id_is_the_offset_after_its_lines(folder: Path) -> None:
    """The browser returns it when it connects again."""
    (folder / "live.jsonl").write_text('{"at":1}\n{"at":2}\n')
    (folder / "report.html").write_text("")

    lines, over = seen(folder)

    assert (lines["event"], lines["id"]) == ("lines", "18")
    assert lines["data"] == {
        "next": 18, "report": True, "over": False, "failure": "", "lines": [{"at": 1}, {"at": 2}]
    }  # fmt: skip
    assert (over["event"], over["data"]["over"]) == ("over", True)


def test_a_run_that_nobody_follows_is_over(folder: Path) -> None:
    """Without new lines for 45 s and without a report the stream ends."""
    (folder / "live.jsonl").write_text('{"at":1}\n')
    make_stale(folder)

    assert [event["event"] for event in seen(folder)] == ["lines", "over"]


def test_a_phase_that_failed_is_told_after_the_last_line(folder: Path) -> None:
    """A run that failed under way has lines, but no report."""
    (folder / "live.jsonl").write_text('{"at":1}\n')
    entry = {"at": 1, "name": "apply_policy", "state": "failed", "detail": "refused"}
    (folder / "phases.jsonl").write_text(json.dumps(entry) + "\n")
    assert read_lines(RUN, 9).failure == ""

    make_stale(folder)

    assert read_lines(RUN, 9).failure == "apply_policy: refused"


def test_a_stream_ends_with_its_time(folder: Path) -> None:
    """A token is checked when a stream opens, so none lasts."""
    assert seen(folder, stream_seconds=0.0) == []


def test_a_line_without_end_does_not_hold_the_stream_up(folder: Path) -> None:
    """A line that is longer than a reading is left out; the next ones come."""
    longest = "x" * (3 * MOST_BYTES)
    (folder / "live.jsonl").write_text(f'{{"at":1}}\n{longest}\n{{"at":2}}\n{longest}')

    first = read_lines(RUN, 0)
    second = read_lines(RUN, first.next_offset)
    third = read_lines(RUN, second.next_offset)

    assert (first.lines, second.lines, third.lines) == (['{"at":1}'], ['{"at":2}'], [])
    assert third.next_offset == second.next_offset
