"""The broker's log of a fenced run outlives its bench, and is accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.landed_run import send_run
from tests.unit.spark_jobs.synthetic_run import clean_run

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.scenario.run_names import RunNames
from lagbench.embedded.bench_state import BenchFiles
from lagbench.embedded.broker import Broker
from lagbench.embedded.kept_log import has_log, note_fence, put_aside
from lagbench.embedded.local_accounting import account_here
from lagbench.project import STATE_VARIABLE

pytestmark = pytest.mark.slow
NAMES = RunNames("kept-20261127-120000-abcd")


def test_a_run_is_accounted_for_from_the_log_that_its_bench_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run folder could not take the fence, and the broker has stopped; nothing is lost."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    files = BenchFiles(tmp_path / "state")
    folder = RunFolder.create(NAMES.run_id, tmp_path / "runs")
    folder.write_json(folder.manifest, {"fidelity": "processes"})
    broker, run = Broker(files.broker), clean_run()
    broker.start()
    try:
        topics = dict(zip(("events", "processed", "telemetry"), NAMES.topics, strict=True))
        ends = send_run(broker, run, topics)
    finally:
        broker.stop()
    fence = {**ends, "committed": dict(ends["events"]), "fenced_at": 0}
    note_fence(files.state_dir, folder, {NAMES.run_id: fence})
    put_aside(files)
    assert not (files.broker / "data").exists()

    account_here(folder, lambda _: None)

    found = folder.read_json(folder.accounting)
    assert (found["in_log"], found["lost"]) == (sum(ends["events"].values()), 0)
    assert folder.read_json(folder.fence)["fenced_at"] == 0
    assert not has_log(files.state_dir, folder)
