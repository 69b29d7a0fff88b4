"""Setup: one home. Runs that somebody stops or kills; nothing of them lives on.

Each test starts a run and ends its command in one of its phases.
"""

from __future__ import annotations

import signal

import pytest

from tests.e2e.rehearsal import DOWN_LIMIT_SECONDS, Rehearsal, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]

EXECUTOR = "CoarseGrainedExecutorBackend"
"""The class of an executor's JVM."""
# What one pod does at once: nothing to drain and to settle before the accounting.
SMALL = ("profile.rate_per_second=20", "profile.spike_hold_seconds=4", "tail=none")


def test_an_interrupted_run_leaves_nothing(rehearsal: Rehearsal) -> None:
    """Ctrl-C while Spark works: the command ends, and ``down`` leaves no process."""
    process = rehearsal.start_run(*SMALL)
    rehearsal.wait_for_phase("account_for_messages")
    process.send_signal(signal.SIGINT)
    code = process.wait(timeout=DOWN_LIMIT_SECONDS)
    rehearsal.finish(rehearsal.start("down"))

    assert code == 130, rehearsal.output()
    assert rehearsal.dag_run_states()[-1] == "failed"
    wait_until(
        lambda: not rehearsal.processes(),
        "no process of the home",
        limit_seconds=DOWN_LIMIT_SECONDS,
    )


def test_a_killed_command_leaves_nothing(rehearsal: Rehearsal) -> None:
    """SIGKILL in mid-spike: Dag, localkube, broker and pods end with the command.

    The pods are Spark's, whose executors are children of children.
    """
    process = rehearsal.start_run(is_on_spark=True)
    # Master, worker and driver start one after the other.
    rehearsal.wait_for_phase("inject_spike", "finished")
    assert rehearsal.processes(EXECUTOR)
    process.kill()
    process.wait(timeout=60)

    wait_until(
        lambda: not rehearsal.processes(),
        "no process of the home",
        limit_seconds=DOWN_LIMIT_SECONDS,
    )
