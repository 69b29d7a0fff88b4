"""Setup: one home, one bench kept up. A rehearsal for each fault, judged by its accounting.

Each test starts a run, breaks something in mid-spike, and reads what the verdict says of it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lagbench.embedded import bench
from tests.e2e.rehearsal import Rehearsal
from tests.fakes.bench_leftovers import leftovers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]
KEEP = ("--keep-bench",)
# 15,000 messages: a minute of work for one pod, so the autoscaler's next look still finds lag.
SHORT = "profile.spike_hold_seconds=10"


@pytest.fixture(scope="module", autouse=True)
def _kept_bench(rehearsal: Rehearsal) -> Iterator[None]:
    """Take the bench down after the module's last test."""
    yield
    rehearsal.finish(rehearsal.start("down"))


def test_killed_consumers_lose_nothing(rehearsal: Rehearsal) -> None:
    """SIGKILL in mid-spike and near the end: none lost, repeated work named, the run judged."""
    process = rehearsal.start_run(SHORT, options=KEEP)
    rehearsal.wait_for_phase("traffic_finished")
    consumers = rehearsal.processes("-m lagbench.programs.consumer")
    victim = min(consumers, key=lambda consumer: consumer.create_time())
    pod = victim.environ()["POD_NAME"]
    victim.send_signal(signal.SIGKILL)
    rehearsal.wait_for_phase("stop_tail", "finished")
    (last,) = rehearsal.processes("-m lagbench.programs.consumer")
    last.send_signal(signal.SIGKILL)  # the run waits for the dead member's session to end
    code = rehearsal.finish(process)

    accounting, verdict = rehearsal.read("accounting.json"), rehearsal.slo("duplicated")
    assert accounting["lost"] == 0, rehearsal.output()
    assert accounting["not_yet_consumed"] == 0
    assert accounting["processed_distinct"] == accounting["in_log"]
    assert rehearsal.slo("lost")["status"] == rehearsal.unfailed
    if accounting["duplicated"]:
        assert (code, verdict["status"]) == (1, "fail"), rehearsal.output()
        assert pod in verdict["reason"]
        assert accounting["by_cause"].get("killed") == accounting["duplicated"]
    else:
        assert verdict["status"] == rehearsal.unfailed
    end_state = rehearsal.read("measures.json")["end_state"]
    assert end_state["is_group_stable"], rehearsal.output()
    assert end_state["is_drained"]


def test_a_run_takes_its_objects_away(rehearsal: Rehearsal) -> None:
    """On the bench that the runs above kept up no workload, policy, topic or group is left."""
    state = bench.running(Path(rehearsal.environment["LAGBENCH_STATE_DIR"]))

    assert state is not None
    assert leftovers(state) == []
