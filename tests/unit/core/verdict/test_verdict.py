"""The verdict on a run that went well, changed one thing at a time."""

import re
from typing import Any

import pytest
from tests.fakes.measured_run import changed, quick_spike_measures, result

from lagbench.core.measures.accounting.accounting import BadMessageGroup
from lagbench.core.measures.measures import Measures
from lagbench.core.scenario.slo_limits import Slos
from lagbench.core.verdict.verdict import exit_code, judge
from lagbench.errors import ExitCode

GOOD = quick_spike_measures()
SLOS = Slos(drain_seconds=120)


def duplicates(count: int = 17) -> Measures:
    """Return the run with duplicates by one pod after another's SIGTERM."""
    group = BadMessageGroup(
        message_class="duplicated",
        pod="consumer-03",
        other_pod="consumer-07",
        cause="sigterm",
        cause_pod="consumer-07",
        count=count,
        partitions=(4, 9),
        first_at=(GOOD.load.stream_started_at or 0) + 199_500_000_000,
    )
    return changed("accounting", duplicated=count, bad_messages=(group,))


def test_a_good_run_passes() -> None:
    """Every judged SLO holds; what had no occasion is not judged."""
    verdict = judge(GOOD, SLOS)

    assert verdict.status == "pass"
    assert exit_code(verdict) is ExitCode.PASS
    assert {slo.name: slo.status for slo in verdict.slos if slo.status != "pass"} == {
        "surplus_pods_idle": "not_judged",  # never more members than partitions
        "pod_minutes": "not_judged",  # the scenario sets no limit, as for the next two
        "time_lag_p95_seconds": "not_judged",
        "time_lag_p99_seconds": "not_judged",
    }
    assert {slo.name for slo in verdict.slos} <= set(Slos.model_fields)


def test_an_slo_beyond_its_limit_fails_the_run() -> None:
    """17 s of reaction with a limit of 10 s: fail, with pod and parts in the reason."""
    verdict = judge(GOOD, Slos(reaction_seconds=10))

    found = result(verdict, "reaction_seconds")
    assert (verdict.status, found.status) == ("fail", "fail")
    assert exit_code(verdict) is ExitCode.SLO_FAILED
    assert found.limit == 10
    assert "consumer-02" in found.reason
    assert " 14.0 s" in found.reason
    assert verdict.reasons == (f"{found.title}: {found.reason}",)


def warns(**limits: object) -> Slos:
    """Return limits that only warn, beside those by default."""
    return Slos.model_validate({n: {"limit": v, "level": "warn"} for n, v in limits.items()})


def test_a_broken_limit_that_warns_does_not_fail_the_run() -> None:
    """Nor does lost evidence of it leave the run open; both are said."""
    verdict = judge(GOOD, warns(reaction_seconds=10))
    found = result(verdict, "reaction_seconds")
    assert (verdict.status, found.status, found.level) == ("pass", "warn", "warn")
    assert verdict.reasons == ("all 11 judged SLOs hold",)
    assert verdict.warnings == (f"{found.title}: {found.reason}",)

    lost = judge(changed("drain", threshold_records=None), warns(drain_seconds=60))
    assert (lost.status, result(lost, "drain_seconds").status) == ("pass", "undetermined")
    assert len(lost.warnings) == 1
    assert lost.is_result()
    assert not lost.is_result(["drain_seconds"])

    both = judge(duplicates(), warns(reaction_seconds=10))
    assert both.status == "fail"


def test_a_run_whose_limits_all_warn_was_not_judged() -> None:
    """Nothing could have failed it."""
    slos = {
        name: {"limit": field.default, "level": "warn"}
        for name, field in Slos.model_fields.items()
        if field.default is not None
    }

    verdict = judge(GOOD, Slos.model_validate(slos))

    assert (verdict.status, verdict.warnings) == ("undetermined", ())


def test_an_slo_without_limit_reports_its_value() -> None:
    """None in the scenario: the value is there, nothing is judged."""
    found = result(judge(GOOD, Slos(rebalance_dip_percent=None)), "rebalance_dip_percent")

    assert (found.status, found.limit) == ("not_judged", None)
    assert found.value == GOOD.rebalances.max_dip_percent


def test_duplicates_fail_and_name_pod_and_cause() -> None:
    """The reason says who, where, next to what and when."""
    verdict = judge(duplicates(), SLOS)

    found = result(verdict, "duplicated")
    assert (verdict.status, found.status, found.value) == ("fail", "fail", 17)
    for named in ("consumer-03", "consumer-07", "4, 9", "SIGTERM", "+179.5 s"):
        assert named in found.reason


def test_a_run_that_was_not_drained_never_passes() -> None:
    """Zero lost so far proves nothing while messages wait."""
    run = changed("end_state", is_drained=False, undrained_partitions=(3,), undrained_records=12)

    verdict = judge(run, SLOS)

    assert verdict.status == "undetermined"
    assert exit_code(verdict) is ExitCode.UNDETERMINED
    assert result(verdict, "lost").status == "undetermined"
    assert re.findall(r"\d+", verdict.open_ends[0]) == ["12", "3"]


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        ("end_state", {"is_drained": None}),
        ("end_state", {"is_group_stable": False, "group_state": "PREPARING_REBALANCING"}),
        ("end_state", {"is_group_stable": None}),
        ("accounting", {"not_yet_consumed": 4}),  # the ledger lacks messages beyond the commits
    ],
)
def test_an_unsettled_end_never_passes(part: str, fields: dict[str, Any]) -> None:
    """No fence, an unstable group or one that was not seen: never pass."""
    assert judge(changed(part, **fields), Slos(lost=None, duplicated=None)).status == "undetermined"


@pytest.mark.parametrize("committed", [1, 0])
def test_a_group_that_never_committed_is_named(committed: int) -> None:
    """No offset of any message is committed: more than a drain that was too slow."""
    messages = quick_spike_measures().end_state.log_records - committed
    fields = {"undrained_partitions": (0, 1), "undrained_records": messages}

    verdict = judge(changed("end_state", is_drained=False, **fields), Slos())

    assert ("no offset" in " ".join(verdict.reasons)) is (committed == 0)


def test_what_is_proven_stays_proven() -> None:
    """A duplicate is one even when the run was not drained, or its load was another one."""
    undrained = judge(changed("end_state", duplicates(), is_drained=False), SLOS)

    assert undrained.status == result(undrained, "duplicated").status == "fail"
    assert result(undrained, "lost").status == "undetermined"
    assert judge(behind(duplicates()), SLOS).status == "fail"


def behind(run: Measures) -> Measures:
    """Return ``run`` with a generator that fell behind."""
    update = {"is_valid": False, "reasons": ("late",)}
    return run.model_copy(update={"validity": run.validity.model_copy(update=update)})


def test_an_invalid_run_says_why_once_and_passes_nothing() -> None:
    """It was another load: no SLO passes or fails by it, each shows what was measured."""
    verdict = judge(behind(GOOD), Slos(reaction_seconds=1))

    assert verdict.status == "undetermined"
    assert verdict.reasons == verdict.invalid == ("late",)
    assert {slo.status for slo in verdict.slos} == {"undetermined", "not_judged"}
    assert result(verdict, "reaction_seconds").value == GOOD.reaction.assigned_seconds
    assert not any("late" in slo.reason for slo in verdict.slos)


def test_a_run_without_any_limit_was_not_judged() -> None:
    """No SLO has a limit: nothing holds, and nothing passes."""
    none = {name: None for name, field in Slos.model_fields.items() if field.annotation is not bool}
    claims = {name: False for name, field in Slos.model_fields.items() if field.annotation is bool}

    verdict = judge(GOOD, Slos(**none, **claims))

    assert verdict.status == "undetermined"
    assert {slo.status for slo in verdict.slos} == {"not_judged"}


@pytest.mark.parametrize(
    ("fields", "status", "value"),
    [
        ({"outcome": "did_not_come"}, "fail", None),  # the lab's CPU policy: nothing happens
        ({"outcome": "not_due"}, "pass", 0),  # it asked for no pod: 0 s
        ({"outcome": "unknown", "outcome_text": "t7"}, "undetermined", None),
        ({"unknown_text": "t7"}, "undetermined", GOOD.reaction.assigned_seconds),  # another step's
    ],
)
def test_a_reaction_is_judged_by_its_outcome(
    fields: dict[str, Any], status: str, value: float | None
) -> None:
    """Also where another load step is not known: the worst of them may be that one."""
    found = result(judge(changed("reaction", **fields), SLOS), "reaction_seconds")

    assert (found.status, found.value) == (status, value)
    assert ("t7" in found.reason) is (status == "undetermined")


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [
        (16.0, 17.0, "pass"),
        (89.0, 91.0, "undetermined"),
        (90.5, 91.5, "fail"),
        (None, None, "undetermined"),
    ],
)
def test_a_reaction_is_judged_by_its_interval(
    low: float | None, high: float | None, status: str
) -> None:
    """The limit of 90 s inside it, or a clock without a bound: neither pass nor fail."""
    fields = {"assigned_low_seconds": low, "assigned_high_seconds": high}

    found = result(judge(changed("reaction", **fields), SLOS), "reaction_seconds")

    assert found.status == status


@pytest.mark.parametrize(
    ("above_for_seconds", "status"), [(121.0, "fail"), (119.0, "undetermined")]
)
def test_lag_that_did_not_drain_fails_when_seen_above_beyond_the_limit(
    above_for_seconds: float, status: str
) -> None:
    """A reading that nobody took fails nothing: after the last one it may have come down."""
    end = GOOD.drain.spike_ended_at or 0
    run = changed(
        "drain",
        drain_seconds=None,
        drained_at=None,
        above_until_at=end + round(above_for_seconds * 1e9),
    )

    assert result(judge(run, SLOS), "drain_seconds").status == status


@pytest.mark.parametrize(
    ("precision", "limit", "status"),
    [(1.0, 120, "pass"), (1.0, 89.5, "undetermined"), (90.0, 60, "undetermined"), (1, 60, "fail")],
)
def test_a_drain_is_judged_by_its_interval(precision: float, limit: float, status: str) -> None:
    """90 s, known to within the distance to the last sample above."""
    run = changed("drain", precision_seconds=precision)

    assert result(judge(run, Slos(drain_seconds=limit)), "drain_seconds").status == status


def test_a_drain_says_that_a_pod_had_several_partitions() -> None:
    """10 pods read 12 partitions."""
    run = changed("scaling", max_ready_replicas=10, partitions=12)
    run = run.model_copy(update={"drain": run.drain.model_copy(update=NOT_SKEWED)})

    assert "10 pods" in result(judge(run, SLOS), "drain_seconds").reason


NOT_SKEWED = {"skew_limited_seconds": 20.0, "drain_seconds": 66.7}


def with_episode(**fields: Any) -> Measures:
    """Return the run with one scale step changed."""
    episodes = list(GOOD.rebalances.episodes)
    episodes[1] = episodes[1].model_copy(update=fields)
    return changed("rebalances", episodes=tuple(episodes))


@pytest.mark.parametrize(
    ("fields", "slo", "status", "named"),
    [
        ({"dip_percent": 40.0}, "rebalance_dip_percent", "fail", "+15.8 s"),  # which, and when
        ({"dip_percent": 90.0, "trigger": "pod_death"}, "rebalance_dip_percent", "pass", ""),
        ({"dip_percent": None}, "rebalance_dip_percent", "undetermined", ""),
        (
            {"dip_percent": None, "recovery_seconds": None},
            "rebalance_recovery_seconds",
            "undetermined",
            "",
        ),
        # Watched for 15 s without being back at 95 %; the limit is 5 s.
        (
            {"dip_percent": 12.0, "recovery_seconds": None},
            "rebalance_recovery_seconds",
            "fail",
            "15.0 s",
        ),
    ],
)
def test_each_scale_step_is_judged(
    fields: dict[str, Any], slo: str, status: str, named: str
) -> None:
    """A death is none: what it costs stands in the report."""
    verdict = judge(with_episode(**fields), SLOS)

    assert result(verdict, slo).status == verdict.status == status
    assert named in result(verdict, slo).reason


@pytest.mark.parametrize(
    ("part", "fields", "slo"),
    [
        ("accounting", {"lost": None}, "lost"),
        ("accounting", {"duplicated": None}, "duplicated"),
        ("accounting", {"reordered": None}, "reordered"),
        ("accounting", {"zombie": None}, "zombies"),
        ("scaling", {"baseline_at_floor": None}, "baseline_at_floor"),
        ("scaling", {"flips": None}, "flips"),
        ("drain", {"falls_monotonically": None}, "lag_falls_at_full_parallelism"),
    ],
)
def test_a_missing_measure_is_undetermined(part: str, fields: dict[str, Any], slo: str) -> None:
    """Never a pass, and the run with it."""
    verdict = judge(changed(part, **fields), SLOS)

    assert result(verdict, slo).status == "undetermined"
    assert verdict.status == "undetermined"


def test_a_steady_load_judges_no_spike() -> None:
    """Reaction, drain and fall need a spike."""
    run = changed("load", first_spike_started_at=None, last_spike_ended_at=None, spikes=0)
    run = run.model_copy(update={"drain": run.drain.model_copy(update={"spike_ended_at": None})})

    verdict = judge(run, SLOS)

    names = ("reaction_seconds", "drain_seconds", "lag_falls_at_full_parallelism")
    assert {result(verdict, name).status for name in names} == {"not_judged"}


def test_what_a_kind_of_consumer_cannot_have_is_not_asked() -> None:
    """With Spark the SLOs on rebalances are left out, whatever was measured."""
    found = judge(GOOD.model_copy(update={"consumer_kind": "spark"}), SLOS)

    for name in ("rebalance_dip_percent", "surplus_pods_idle"):
        assert (result(found, name).status, result(found, name).value) == ("not_judged", None)
    assert result(found, "lost").status == "pass"
