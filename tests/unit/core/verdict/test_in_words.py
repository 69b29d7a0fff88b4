"""A verdict in plain words."""

import pytest
from tests.fakes.measured_run import quick_spike_measures

from lagbench.core.verdict.in_words import in_words, summary
from lagbench.core.verdict.slo import Slo, SloResult
from lagbench.core.verdict.verdict import Verdict

REACTION = Slo("reaction_seconds", "Scale-out reaction", 90, "s")
STANDSTILL = Slo("standstill_seconds", "Standstill", 5, "s")
P99 = Slo("time_lag_p99_seconds", "Time lag p99", None, "s")
LOST = Slo("lost", "Messages lost", 0, "messages")
CLAIM = Slo("baseline_at_floor", "Baseline at the floor", True)


def verdict(status: str, *slos: SloResult, reasons: tuple[str, ...] = ()) -> Verdict:
    """Return a verdict on these SLOs."""
    return Verdict.model_validate(
        {"run_id": "r1", "status": status, "reasons": reasons, "slos": slos}
    )


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            verdict("pass", REACTION.compare(30, "x"), STANDSTILL.compare(4.5, "x")),
            ["All 2 SLOs with a limit hold", "Standstill 4.5 s of at most 5 s (10 % left)"],
        ),
        # The edge of the measurement error counts.
        (
            verdict("pass", REACTION.compare(45, "x", high=81), STANDSTILL.compare(4, "x")),
            ["Scale-out reaction 45.0 s of at most 90 s (10 % left)"],
        ),
        (verdict("pass", LOST.compare(0, "x")), ["All 1 SLOs with a limit hold."]),
        (
            verdict("fail", REACTION.compare(95, "x"), CLAIM.claim(False, "x")),
            [
                "2 of 2 SLOs with a limit fail",
                "Scale-out reaction 95.0 s, at most 90 s",
                "Baseline at the floor does not hold",
            ],
        ),
        (
            verdict(
                "undetermined",
                REACTION.compare(89, "x", low=85, high=95),
                reasons=("too close",),
            ),
            ["not a pass: too close", "--slo reaction_seconds=100"],
        ),
        (
            verdict("pass", REACTION.compare(1, "x"), P99.compare(71.5, "x")),
            [
                "Not asked: Time lag p99 71.5 s",
                "report r1 --slo time_lag_p99_seconds=80",
            ],
        ),
        (
            verdict(
                "pass",
                REACTION.without_occasion("no spike"),
                STANDSTILL.without_occasion("x"),
                LOST.compare(0, "x"),
            ),
            ["Partial: 1 of 3 SLOs"],
        ),
        (
            verdict("pass", LOST.compare(0, "x"), STANDSTILL.compare(6, "x").as_warning()),
            [
                "All 1 SLOs with a limit hold.",
                "does not fail the run: Standstill 6.0 s, at most 5 s",
            ],
        ),
    ],
)
def test_status_margin_and_what_was_not_asked(found: Verdict, said: list[str]) -> None:
    """Each in a sentence of its own."""
    text = " ".join(in_words(found))

    assert [part for part in said if part not in text] == []


def test_what_could_not_be_judged_is_said_of_a_pass() -> None:
    """Commits alone know of no lost message."""
    found = verdict("pass", REACTION.compare(1, "x")).model_copy(
        update={"judged_without": ("judged without: lost, zombies",)}
    )

    assert "Judged without: lost, zombies." in in_words(found)


def test_pods_that_could_not_help_are_counted() -> None:
    """One pod reads the hottest partition: with 16 % of the load the seventh pod adds little."""
    good = quick_spike_measures()
    run = good.model_copy(
        update={
            "drain": good.drain.model_copy(
                update={"drain_seconds": 95.0, "skew_limited_seconds": 90.0}
            ),
            "accounting": good.accounting.model_copy(update={"hottest_partition_share": 0.16}),
            "scaling": good.scaling.model_copy(update={"max_ready_replicas": 12}),
        }
    )
    found = verdict("pass", REACTION.compare(1, "x"), P99.compare(71.5, "x"))

    assert "16 % of the load and one pod reads it; pods 7 to 12 helped" in in_words(found, run)[-1]
    faster = run.model_copy(
        update={"drain": run.drain.model_copy(update={"skew_limited_seconds": 50.0})}
    )
    assert "pods" not in in_words(found, faster)[-1]
    even = run.accounting.model_copy(update={"hottest_partition_share": 1 / 12})
    of_many = run.model_copy(update={"accounting": even})
    assert "one partition takes" not in in_words(found, of_many)[-1]


@pytest.mark.parametrize(("high", "limit"), [(20.05, "25"), (100, "100"), (0.12, "0.15"), (3, "3")])
def test_a_limit_to_set_is_round_and_not_below_the_value(high: float, limit: str) -> None:
    """A value that is too close to its limit names it."""
    close = STANDSTILL.compare(high, "x", low=high / 2, high=high)
    too_close = close.model_copy(update={"is_too_close": True})

    assert f"--slo standstill_seconds={limit}." in " ".join(in_words(verdict("fail", too_close)))


def test_a_run_that_measured_nothing_has_nothing_to_ask() -> None:
    """Missing is not zero."""
    assert not any("Not asked" in one for one in in_words(verdict("pass", P99.unknown("none"))))


def test_the_summary_has_failures_first_in_a_dozen_lines() -> None:
    """However many SLOs there are."""
    passed = [Slo(f"s{n}", f"S{n}", 5, "s").compare(1, "x") for n in range(20)]
    found = verdict("fail", *passed, REACTION.compare(95, "x"))

    lines = summary(found, {"scenario": "mine", "policy": "ours", "seed": 3}).splitlines()

    assert lines[0] == "### ✗ FAIL: mine with ours, seed 3"
    assert len(lines) <= 16
    assert next(line for line in lines if line.startswith("| ✗")) == lines[6]
