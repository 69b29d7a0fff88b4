"""The verdict on a run that went well, changed one thing at a time."""

import re
from typing import Any

import pytest
from tests.fakes.measured_run import changed, quick_spike_measures, result

from lagbench.core.measures.accounting.accounting import BadMessageGroup
from lagbench.core.measures.measures import Measures
from lagbench.core.scenario.scenario import Slos
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
    for named in ("consumer-03", "consumer-07", "4, 9", "SIGTERM", "+199.5 s"):
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
    "fields",
    [
        {"is_drained": None},
        {"is_group_stable": False, "group_state": "PREPARING_REBALANCING"},
        {"is_group_stable": None},
    ],
)
def test_an_unsettled_end_never_passes(fields: dict[str, Any]) -> None:
    """No fence, an unstable group or one that was not seen: never pass."""
    verdict = judge(changed("end_state", **fields), Slos(lost=None, duplicated=None))

    assert verdict.status == "undetermined"


@pytest.mark.parametrize("committed", [1, 0])
def test_a_group_that_never_committed_is_named(committed: int) -> None:
    """No offset of any message is committed: more than a drain that was too slow."""
    messages = quick_spike_measures().end_state.log_records - committed
    fields = {"undrained_partitions": (0, 1), "undrained_records": messages}

    verdict = judge(changed("end_state", is_drained=False, **fields), Slos())

    assert ("no offset" in " ".join(verdict.reasons)) is (committed == 0)


def test_messages_not_yet_consumed_never_pass() -> None:
    """The fence says drained, but the ledger lacks messages beyond the commits."""
    run = changed("accounting", not_yet_consumed=4)

    assert judge(run, SLOS).status == "undetermined"


def test_a_duplicate_is_a_duplicate_even_when_not_drained() -> None:
    """What is proven stays proven."""
    run = duplicates()
    run = run.model_copy(
        update={"end_state": run.end_state.model_copy(update={"is_drained": False})}
    )

    verdict = judge(run, SLOS)

    assert verdict.status == "fail"
    assert result(verdict, "duplicated").status == "fail"
    assert result(verdict, "lost").status == "undetermined"


def test_a_rebalance_by_a_death_is_judged_by_what_it_cost() -> None:
    """A pod died and every SLO holds: that is a pass, with the episode on record."""
    episodes = (
        *GOOD.rebalances.episodes[:3],
        GOOD.rebalances.episodes[3].model_copy(
            update={"trigger": "pod_death", "trigger_text": "consumer-03 died"}
        ),
    )

    assert judge(changed("rebalances", episodes=episodes), SLOS).status == "pass"


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


def test_duplicates_under_another_load_are_still_duplicates() -> None:
    """Fail takes precedence for accounting facts."""
    assert judge(behind(duplicates()), SLOS).status == "fail"


def test_a_due_pod_that_did_not_come_is_a_failure_to_react() -> None:
    """The lab's CPU policy: lag crosses, nothing happens."""
    run = changed("reaction", outcome="did_not_come")

    found = result(judge(run, SLOS), "reaction_seconds")

    assert (found.status, found.value) == ("fail", None)


def test_a_step_that_asked_for_no_pod_reacted_in_no_time() -> None:
    """Judged anyway: 0 s."""
    run = changed("reaction", outcome="not_due")

    found = result(judge(run, SLOS), "reaction_seconds")

    assert (found.status, found.value) == ("pass", 0)


def test_a_reaction_that_is_not_known_is_undetermined() -> None:
    """Also where another load step's is: the worst of them may be that one."""
    unknown = changed("reaction", outcome="unknown", outcome_text="t7")
    beside = changed("reaction", unknown_text="t7")

    for run in (unknown, beside):
        found = result(judge(run, SLOS), "reaction_seconds")
        assert found.status == "undetermined"
        assert "t7" in found.reason


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


def with_episode(**fields: Any) -> Measures:
    """Return the run with one scale step changed."""
    episodes = list(GOOD.rebalances.episodes)
    episodes[1] = episodes[1].model_copy(update=fields)
    return changed("rebalances", episodes=tuple(episodes))


def test_the_deepest_scale_step_is_judged() -> None:
    """40 % in episode 2: the reason says when."""
    found = result(judge(with_episode(dip_percent=40.0), SLOS), "rebalance_dip_percent")

    assert (found.status, found.value) == ("fail", 40)
    assert "+35.9 s" in found.reason


def test_a_death_is_no_scale_step() -> None:
    """A pod that died dips deeper; the SLO is per scale step."""
    run = with_episode(dip_percent=90.0, trigger="pod_death")

    assert result(judge(run, SLOS), "rebalance_dip_percent").status == "pass"


def test_an_unmeasured_dip_is_undetermined() -> None:
    """The other steps hold, this one is not known."""
    run = with_episode(dip_percent=None, recovery_seconds=None)

    verdict = judge(run, SLOS)

    assert result(verdict, "rebalance_dip_percent").status == "undetermined"
    assert result(verdict, "rebalance_recovery_seconds").status == "undetermined"
    assert verdict.status == "undetermined"


def test_a_dip_that_did_not_recover_in_time_fails() -> None:
    """Watched for 15 s without being back at 95 %; the limit is 5 s."""
    run = with_episode(dip_percent=12.0, recovery_seconds=None)

    found = result(judge(run, SLOS), "rebalance_recovery_seconds")

    assert found.status == "fail"
    assert "15.0 s" in found.reason


@pytest.mark.parametrize(
    ("part", "fields", "slo"),
    [
        ("accounting", {"lost": None}, "lost"),
        ("accounting", {"duplicated": None}, "duplicated"),
        ("accounting", {"reordered": None}, "reordered"),
        ("accounting", {"zombie": None}, "zombies"),
        ("scaling", {"baseline_at_floor": None}, "baseline_at_floor"),
        ("scaling", {"max_replicas": None}, "flips"),
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
