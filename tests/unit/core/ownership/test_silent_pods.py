"""Causes of bad messages where the pods report nothing: the user's own consumers."""

from __future__ import annotations

from tests.unit.core.ownership.test_run_facts import seen

from lagbench.core.ownership.run_facts import RunFacts, facts_of
from lagbench.core.telemetry.records import encode_record
from lagbench.shared_with_spark import message_classes

SECOND = 1_000_000_000


def silent_facts(*, are_silent: bool) -> RunFacts:
    """Return the facts of a pod that was deleted at 40 s and ended by the signal."""
    ended = seen("consumer-a", gone_at=41 * SECOND, exit_code=143)
    ended.deleted_at = 40 * SECOND
    return facts_of([encode_record(ended).decode()], are_silent=are_silent)


def test_a_silent_pods_deletion_is_its_sigterm() -> None:
    """It is no kill: the pod got the signal, and its code did nothing with it."""
    found = silent_facts(are_silent=True)

    assert found.kills == {}
    (blame,) = found.causes.blame(
        message_classes.DUPLICATED, 0, ("consumer-b", "consumer-a"), [(7, 50 * SECOND)]
    )
    assert (blame.cause, blame.cause_pod, blame.cause_at) == (
        "sigterm",
        "consumer-a",
        40 * SECOND,
    )


def test_lagbenchs_own_pods_report_their_sigterm_themselves() -> None:
    """One of them that ends without a report was killed."""
    assert silent_facts(are_silent=False).kills == {"consumer-a": [41 * SECOND]}


def test_the_owner_of_an_output_topic_stands_for_every_pod() -> None:
    """The pod is not known, so the last end of any pod before the repeat is the cause."""
    (blame,) = silent_facts(are_silent=True).causes.blame(
        message_classes.DUPLICATED, 0, ("output-3", "output-3"), [(7, 50 * SECOND)]
    )

    assert (blame.cause, blame.cause_pod) == ("sigterm", "consumer-a")
