"""Setup: one home. Runs that somebody stops or kills; nothing of them lives on.

Each test starts a run and ends its command in one of its phases.
"""

from __future__ import annotations

import signal

import pytest

from tests.e2e.rehearsal import DOWN_LIMIT_SECONDS, Rehearsal, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

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
