"""What the verdict makes of messages that the log lacks, or that nobody can place."""

from typing import Any

import pytest
from tests.unit.core.test_verdict import GOOD, SLOS, changed, result

from lagbench.core.measures import Measures
from lagbench.core.scenario import Slos
from lagbench.core.verdict import judge


def in_log_fewer(count: int, **fields: Any) -> Measures:
    """Return the run with ``count`` acknowledged messages at no offset of the log."""
    found = GOOD.accounting
    assert found.in_log is not None
    assert found.processed_distinct is not None
    return changed(
        "accounting",
        in_log=found.in_log - count,
        processed_distinct=found.processed_distinct - count,
        **fields,
    )


def test_acknowledged_messages_that_the_log_lacks_are_lost() -> None:
    """All that is in the log was processed, and still 9,000 acknowledged messages are gone."""
    verdict = judge(in_log_fewer(9_000, not_in_log=9_000, lost_in_broker=9_000), SLOS)

    found = result(verdict, "lost")
    assert (verdict.status, found.status, found.value) == ("fail", "fail", 9_000)
    assert found.reason == "9000 acknowledged, but the log does not hold them"


def test_losses_of_consumers_and_broker_add_up() -> None:
    """A limit of 3 holds neither for 2 + 2, and each is told."""
    found = result(judge(changed("accounting", lost=2, lost_in_broker=2), Slos(lost=3)), "lost")

    assert (found.status, found.value) == ("fail", 4)


@pytest.mark.parametrize(
    ("fields", "doubt"),
    [
        ({"expired": 5, "not_in_log": 5}, "5 messages had expired"),
        ({"log_holes": 2}, "2 offsets within the log hold no message"),
        ({"unknown_message": 3}, "3 processings are of no message in the log"),
        ({"produced_acked": None, "lost_in_broker": None}, "never said what was acknowledged"),
        ({"produced_unknown": 4, "not_in_log_excused": 1}, "4 deliveries may have been"),
        ({"expired": None, "lost_in_broker": None}, "not known how many messages had expired"),
    ],
)
def test_a_log_with_gaps_proves_no_absence_of_loss(fields: dict[str, Any], doubt: str) -> None:
    """Nobody can know whether what is gone was lost: never pass."""
    verdict = judge(changed("accounting", **fields), SLOS)

    found = result(verdict, "lost")
    assert (verdict.status, found.status) == ("undetermined", "undetermined")
    assert doubt in found.reason


def test_deliveries_that_are_in_the_log_after_all_are_no_doubt() -> None:
    """Two outcomes are unknown to the producer, but the log lacks no seq: they were written."""
    assert judge(changed("accounting", produced_unknown=2), SLOS).status == "pass"


def test_failed_deliveries_are_no_loss() -> None:
    """The log lacks as many seqs as the broker refused: nobody was told that they are safe."""
    run = in_log_fewer(7, produced_failed=7, not_in_log_excused=7)

    assert result(judge(run, SLOS), "lost").status == "pass"


def test_strange_work_leaves_no_class_settled() -> None:
    """A processing of no known message may be a repeat of any."""
    verdict = judge(changed("accounting", unknown_message=1), SLOS)

    names = ("lost", "duplicated", "reordered", "zombies")
    assert {result(verdict, name).status for name in names} == {"undetermined"}


def test_an_accounting_that_contradicts_itself_leaves_the_run_undetermined() -> None:
    """Every SLO holds, but messages are in the log twice: it was another load."""
    verdict = judge(changed("accounting", produced_twice=3), SLOS)

    assert verdict.status == "undetermined"
    assert verdict.reasons == ("3 messages are in the log twice: it was another load",)
