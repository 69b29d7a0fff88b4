"""Setup: one home, one bench kept up; a rehearsal for each fault, judged by its accounting.

Each test starts a run, breaks something in mid-spike, and reads what the verdict says of it.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lagbench.embedded import bench
from tests.e2e.rehearsal import DOWN_LIMIT_SECONDS, Rehearsal, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
KEEP = ("--keep-bench",)


@pytest.fixture(scope="module", autouse=True)
def _kept_bench(rehearsal: Rehearsal) -> Iterator[None]:
    """Take the bench down after the module's last test."""
    yield
    rehearsal.finish(rehearsal.start("down"))


def test_killed_consumers_lose_nothing(rehearsal: Rehearsal) -> None:
    """SIGKILL in mid-spike and near the end: none lost, repeated work named, the run judged."""
    process = rehearsal.start_run(options=KEEP)
    rehearsal.wait_for_phase("traffic_finished")
    consumers = rehearsal.processes("lagbench.programs.consumer")
    victim = min(consumers, key=lambda consumer: consumer.create_time())
    pod = victim.environ()["POD_NAME"]
    victim.send_signal(signal.SIGKILL)
    rehearsal.wait_for_phase("stop_tail", "finished")
    (last,) = rehearsal.processes("lagbench.programs.consumer")
    last.send_signal(signal.SIGKILL)  # the run waits for the dead member's session to end
    code = rehearsal.finish(process)

    accounting, verdict = rehearsal.read("accounting.json"), rehearsal.slo("duplicated")
    assert accounting["lost"] == 0, rehearsal.output()
    assert accounting["not_yet_consumed"] == 0
    assert accounting["processed_distinct"] == accounting["in_log"]
    assert rehearsal.slo("lost")["status"] == "pass"
    if accounting["duplicated"]:
        assert (code, verdict["status"]) == (1, "fail"), rehearsal.output()
        assert pod in verdict["reason"]
        assert accounting["by_cause"].get("killed") == accounting["duplicated"]
    else:
        assert verdict["status"] == "pass"
    end_state = rehearsal.read("measures.json")["end_state"]
    assert end_state["is_group_stable"], rehearsal.output()
    assert end_state["is_drained"]


def test_scale_down_without_drain_does_work_twice(rehearsal: Rehearsal) -> None:
    """``consumer.drain=off``: scale-down repeats work, the verdict fails and names SIGTERM."""
    process = rehearsal.start_run("consumer.drain=off", options=KEEP)
    code = rehearsal.finish(process)

    accounting, slo = rehearsal.read("accounting.json"), rehearsal.slo("duplicated")
    assert accounting["lost"] == 0, rehearsal.output()
    assert accounting["duplicated"] > 0
    assert (code, slo["status"]) == (1, "fail")
    assert accounting["by_cause"].get("sigterm", 0) > 0, accounting["by_cause"]


def test_a_broker_outage_loses_nothing(rehearsal: Rehearsal) -> None:
    """The broker is away for 10 s in the spike: gaps are gaps, nothing is lost, it is said."""
    state_dir = Path(rehearsal.environment["LAGBENCH_STATE_DIR"])
    process = rehearsal.start_run(options=KEEP)
    rehearsal.wait_for_phase("traffic_finished")
    bench.stop_broker(state_dir)
    wait_until(_elapsed(10.0), "10 s of outage", limit_seconds=20)
    bench.start_broker(state_dir)
    rehearsal.finish(process)

    accounting, measures = rehearsal.read("accounting.json"), rehearsal.read("measures.json")
    assert accounting["lost"] == 0, rehearsal.output()
    assert accounting["processed_distinct"] == accounting["in_log"] == accounting["planned"]
    assert any(gap["what"] == "lag" for gap in measures["validity"]["telemetry_gaps"])


# What one pod does at once: nothing to drain and to settle before the accounting.
SMALL = ("profile.rate_per_second=20", "profile.spike_hold_seconds=4", "tail=none")


@pytest.mark.parametrize(
    ("phase", "settings"),
    [("create_topics", ()), ("traffic_finished", ()), ("account_for_messages", SMALL)],
)
def test_an_interrupted_run_leaves_nothing(
    rehearsal: Rehearsal, phase: str, settings: tuple[str, ...]
) -> None:
    """Ctrl-C in any phase: the command ends, and ``down`` leaves no process."""
    process = rehearsal.start_run(*settings)
    rehearsal.wait_for_phase(phase)
    process.send_signal(signal.SIGINT)
    code = process.wait(timeout=DOWN_LIMIT_SECONDS)
    rehearsal.finish(rehearsal.start("down"))

    assert code == 130, rehearsal.output()
    assert rehearsal.dag_run_states()[-1] == "failed"
    wait_until(lambda: not rehearsal.processes(), "no process of the home", limit_seconds=60)


def test_a_killed_command_leaves_nothing(rehearsal: Rehearsal) -> None:
    """SIGKILL of the command in mid-spike: Dag, pods, localkube and broker end with it."""
    process = rehearsal.start_run()
    rehearsal.wait_for_phase("inject_spike", "finished")
    process.kill()
    process.wait(timeout=10)

    wait_until(
        lambda: not rehearsal.processes(),
        "no process of the home",
        limit_seconds=DOWN_LIMIT_SECONDS,
    )


def _elapsed(seconds: float) -> Callable[[], bool]:
    until = time.monotonic() + seconds
    return lambda: time.monotonic() >= until
