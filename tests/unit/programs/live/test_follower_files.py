"""What the live lines say of the cell comes from its run folder."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import msgspec
import pytest
import yaml
from tests.unit.plugins.conftest import SCALED_OBJECT, SCENARIO

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.live.live_line import LiveLine, LivePhase, LiveSpike, decode_line
from lagbench.errors import NotReady
from lagbench.programs.live import run_follower as live_file
from lagbench.programs.live.run_follower import (
    LiveFile,
    OwnerWatch,
    PhaseLog,
    failures_of,
    is_followed,
    read_cell,
)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Return a run folder as plan_cell makes it."""
    made = RunFolder.create("a-run", tmp_path)
    made.write_text(made.scenario, yaml.safe_dump(SCENARIO))
    made.write_text(made.policy, yaml.safe_dump(SCALED_OBJECT))
    made.write_json(made.manifest, {"policy": "lag"})
    return made


COURSE = {"every_seconds": 1.0, "lag": [0, 9], "replicas": [2, 4]}


def test_the_cell_has_load_limits_and_slos(folder: RunFolder) -> None:
    """Spikes and length come from the profile, bounds and threshold from the policy."""
    cell, _, limits = read_cell(folder)

    assert cell.spikes == [LiveSpike(start_seconds=5, end_seconds=15)]
    assert (cell.planned_seconds, limits.lag_threshold_records) == (20, 100)
    assert (cell.floor_replicas, cell.ceiling_replicas, cell.policy) == (2, 4, "lag")
    assert "flips" in [slo.name for slo in cell.slos]
    assert "drain_seconds" not in [slo.name for slo in cell.slos]


@pytest.mark.parametrize(
    ("prediction", "seconds", "lag"),
    [
        ({"before": {"settled_seconds": 67.5, "course": COURSE}}, 67.5, [0, 9]),
        ({"before": {"settled_seconds": 67.5}}, 67.5, None),
        ({"before": None}, None, None),
    ],
)
def test_the_end_and_the_course_are_the_predicted_ones(
    folder: RunFolder, prediction: dict[str, object], seconds: float | None, lag: list[int] | None
) -> None:
    """Without a prediction they are not known; an older one has no course."""
    folder.write_json(folder.prediction, prediction)

    cell = read_cell(folder)[0]
    assert cell.settled_seconds == seconds
    assert (None if cell.predicted is None else cell.predicted.lag) == lag
    folder.write_text(folder.scenario, "name: [")  # no folder as plan_cell writes it
    with pytest.raises(NotReady):
        read_cell(folder)


def test_a_cell_says_which_group_of_two_it_is_of(folder: RunFolder) -> None:
    """A run with one group has no such word."""
    assert read_cell(folder)[0].group is None

    second = folder.make_second()
    for path in ("scenario.yaml", "policy.yaml", "manifest.json"):
        second.write_text(path, folder.read_text(path))

    assert [read_cell(group)[0].group for group in folder.groups] == ["first", "second"]


def test_a_line_is_appended_to_what_is_there(tmp_path: Path) -> None:
    """A follower that starts again loses no line of the one before."""
    for at in (1, 2):
        with LiveFile(tmp_path / "live.jsonl") as file:
            assert file.append(LiveLine(at=at))

    lines = (tmp_path / "live.jsonl").read_bytes().splitlines()
    assert [decode_line(line).at for line in lines] == [1, 2]


def test_the_lock_shows_whether_a_run_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two followers would mix their lines; a missing file and one that was let go have none."""
    monkeypatch.setattr(live_file, "LOOKS", 1)
    path = tmp_path / "live.jsonl"
    assert not is_followed(path)

    with LiveFile(path):
        assert is_followed(path)
        with pytest.raises(NotReady):
            LiveFile(path)

    assert not is_followed(path)


def test_a_full_file_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that does not fit is not written, not even in part."""
    monkeypatch.setattr(live_file, "has_room", lambda _size, _line: False)
    with LiveFile(tmp_path / "live.jsonl") as file:
        assert not file.append(LiveLine(at=1))

    assert (tmp_path / "live.jsonl").read_bytes() == b""


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    """The message has the path and the reason."""
    with pytest.raises(NotReady, match="No such file"):
        LiveFile(tmp_path / "gone" / "live.jsonl")


def test_the_owner_s_end_ends_the_wait() -> None:
    """Also of an owner that was killed and that nobody has waited for."""
    owner = subprocess.Popen(["sleep", "600"])
    watch = OwnerWatch(owner.pid)
    owner.kill()

    assert watch.wait(60.0)
    owner.wait()


def test_a_request_ends_the_wait() -> None:
    """As from a signal handler; nothing has ended before it."""
    watch = OwnerWatch(os.getpid())
    assert not watch.wait(0.0)
    watch.ask()

    assert watch.wait(60.0)


def test_an_owner_that_has_ended_is_refused() -> None:
    """There is no process to hold."""
    owner = subprocess.Popen(["true"])
    owner.wait()

    with pytest.raises(ProcessLookupError):
        OwnerWatch(owner.pid)


def entry(name: str, state: str) -> str:
    """Return a line of phases.jsonl."""
    return json.dumps({"at": 1, "name": name, "state": state, "detail": "why"}) + "\n"


def test_only_news_are_returned(tmp_path: Path) -> None:
    """A file that is not there has none, and half a line is left for the next time."""
    path = tmp_path / "phases.jsonl"
    log = PhaseLog(path)
    assert log.news() == []

    path.write_text(entry("bench_up", "started") + entry("bench_up", "failed")[:10])
    assert [phase.state for phase in log.news()] == ["started"]

    path.write_text(entry("bench_up", "started") + entry("bench_up", "failed"))
    (failed,) = log.news()
    assert (failed.name, failed.state, failed.detail) == ("bench_up", "failed", "why")
    assert log.news() == []


def test_a_phase_that_was_repeated_has_not_failed() -> None:
    """The newest state of each phase counts."""
    states = [("bench_up", "failed"), ("bench_up", "started"), ("bench_up", "finished")]
    states += [("create_topics", "started"), ("create_topics", "failed")]
    phases = [
        msgspec.convert({"at": at, "name": name, "state": state}, LivePhase)
        for at, (name, state) in enumerate(states)
    ]

    assert failures_of(phases) == [phases[-1]]
