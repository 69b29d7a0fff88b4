"""The phases of a run are read once each, as its tasks append them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from lagbench.core.live.line import LivePhase
from lagbench.programs.live.live_file import PhaseLog, failures_of


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
