"""Setup: one home, one bench kept up. Own consumers with a fault each, and their verdicts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.rehearsal import DATA, POLICY, Rehearsal

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
SCENARIO = DATA / "scenarios" / "tiny_own.yaml"


@pytest.fixture(scope="module", autouse=True)
def _kept_bench(rehearsal: Rehearsal) -> Iterator[None]:
    """Take the bench down after the module's last test."""
    yield
    rehearsal.finish(rehearsal.start("down"))


def rehearse(rehearsal: Rehearsal, fault: str, *settings: str) -> int:
    """Rehearse the consumer with the fault; return the exit code."""
    process = rehearsal.start_files(
        SCENARIO, POLICY, f"consumer.args=[{fault}]", *settings, options=("--keep-bench",)
    )
    return rehearsal.finish(process)


def test_a_consumer_that_drops_the_headers_proves_nothing(rehearsal: Rehearsal) -> None:
    """Records without the header are foreign: the run is undetermined, and the reason names it."""
    code = rehearse(rehearsal, "drops-headers")

    accounting, verdict = rehearsal.read("accounting.json"), rehearsal.read("verdict.json")
    assert code == 4, rehearsal.output()
    assert accounting["in_log"] > 0
    assert "header" in " ".join(verdict["reasons"]), verdict["reasons"]


def test_a_consumer_that_commits_before_it_works_loses_at_a_kill(rehearsal: Rehearsal) -> None:
    """SIGKILL in mid-batch: its committed messages have no result, and are named lost."""
    code = rehearse(rehearsal, "commits-first", "actions=[{kind: kill_pod, at_seconds: 5}]")

    accounting = rehearsal.read("accounting.json")
    assert accounting["lost"] > 0, rehearsal.output()
    assert (code, rehearsal.slo("lost")["status"]) == (1, "fail"), rehearsal.output()


def test_a_consumer_that_never_commits_is_not_drained(rehearsal: Rehearsal) -> None:
    """The lag stays, so nothing passes; what committed offsets cannot show is said first."""
    waits = ("timeouts.drain_seconds=20", "timeouts.settle_seconds=20")  # for what never comes
    code = rehearse(rehearsal, "never-commits", "consumer.accounting=commits", *waits)

    verdict = rehearsal.read("verdict.json")
    assert code == 4, rehearsal.output()
    assert verdict["reasons"][0].startswith("judged without: lost, "), verdict["reasons"]
    assert "committed no offset" in " ".join(verdict["reasons"]), verdict["reasons"]
