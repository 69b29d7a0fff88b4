"""A whole search over a dozen candidates with two draws each."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

import pytest
from tests.fakes import policies
from tests.fakes.questions import MARGIN, P99, PRESENT, SPIKE, question, scenario

from lagbench.core.advice.job import KEPT, Job, Outcome, Place, evaluate_job, new_job
from lagbench.core.advice.judge import Judge
from lagbench.core.advice.model import Advice
from lagbench.core.advice.robust import variants
from lagbench.core.advice.search import search
from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.message_costs import LognormalCost
from lagbench.core.simulation.model_error import ModelError
from lagbench.core.simulation.simulate import simulate
from lagbench.core.simulation.simulated_world import SimulatedEnvironment

REACTION = "reaction_seconds"


def backwards(jobs: Sequence[Job]) -> Iterator[Outcome]:
    """Evaluate in another order, as a pool may."""
    return (evaluate_job(job) for job in reversed(jobs))


@pytest.fixture(scope="module")
def found() -> Advice:
    """Provide the advice for a p99 of 20 s; its rival is the present policy."""
    return search(question(rivals={"rival": Policy.load(PRESENT, where="rival")}), backwards)


def test_the_pick_holds_the_slo_with_the_margin(found: Advice) -> None:
    """In the worst draw, and no one that holds and is robust is much cheaper."""
    assert found.outcome == "advice"
    assert found.pick is not None
    result = found.pick.results[0]
    assert result.real_range is not None
    assert result.real_range[1] == pytest.approx((result.slo_value.high or 0) + MARGIN, abs=1e-6)
    assert result.real_range[1] <= 20
    assert found.margin is not None
    assert found.margin.value == pytest.approx(MARGIN)


def test_the_answer_has_front_present_rival_robustness_and_effort(found: Advice) -> None:
    """What the page shows."""
    costs = [one.pod_minutes or 0 for one in found.front]
    assert costs == sorted(costs)
    assert found.present is not None
    assert [one.name for one in found.rivals] == ["rival"]
    assert {row.variant for row in found.robust} == {
        name for name, _ in variants(Place("short", SPIKE, SimulatedEnvironment(), ""))
    }
    assert found.searched.candidates == 14
    assert found.searched.simulations > 20
    assert Advice.model_validate_json(found.model_dump_json()) == found


def test_the_order_of_the_outcomes_does_not_matter(found: Advice) -> None:
    """Bit by bit."""
    asked = question(rivals={"rival": Policy.load(PRESENT, where="rival")})

    assert search(asked, lambda jobs: map(evaluate_job, jobs)) == found


def test_a_margin_above_the_limit_leaves_no_candidate() -> None:
    """Real runs may wait for 3 s even with every pod; the answer says how near they come."""
    errors = {P99: ModelError(20, False, 0.0, 0.0, MARGIN, 0.0, MARGIN)}

    answer = search(question(slos={P99: 2.0}, errors=errors), backwards)

    assert answer.outcome == "no_policy"
    assert answer.pick is None
    assert any("margin" in reason for reason in answer.reasons)


def test_further_slos_must_hold_too() -> None:
    """Two fixed pods would be the cheapest, but break the reaction."""
    answer = search(question(slos={P99: 60.0, REACTION: 30.0}), backwards)

    assert answer.pick is not None
    assert answer.pick.results[0].broken == {P99: 0, REACTION: 0, "flips": 0}


@pytest.mark.parametrize(
    ("asked", "limit", "held"),
    [({}, 0, 0), ({}, 2, 2), ({}, None, 3), ({"flips": 7.0}, 0, 7)],
    ids=["scenario", "scenario allows some", "no more than the present policy", "asked"],
)
def test_flips_have_a_limit_unless_one_was_asked(
    asked: dict[str, float], limit: int | None, held: int
) -> None:
    """That of the scenario, by which a run of the pick is judged."""

    def three_flips_at_present(jobs: Sequence[Job]) -> Iterator[Outcome]:
        at = KEPT.index("flips")
        for job in jobs:
            rows = evaluate_job(job).rows
            if job.candidate == "present":
                rows = tuple((*row[:at], 3, *row[at + 1 :]) for row in rows)
            yield Outcome(job.key, rows)

    given = scenario(slos={"flips": limit})
    answer = search(question(given, slos={P99: 20.0, **asked}), three_flips_at_present)

    assert [(one.name, one.limit) for one in answer.also] == [("flips", held)]
    assert answer.present is not None
    assert answer.present.holds == (held >= 3)


def test_the_runner_up_is_another_candidate(found: Advice) -> None:
    """Neither the pick nor the present policy, which is rehearsed anyway."""
    assert found.pick is not None
    assert found.runner_up is not None
    assert found.runner_up.family != "present"
    assert found.runner_up.name != found.pick.name


def test_finalists_that_come_to_the_same_are_one(found: Advice) -> None:
    """Also to the present policy; and each of them stands in the table of robustness."""
    names = [row.candidate for row in found.robust if row.variant == "pod start 1 s"]
    assert len(names) == len(set(names))
    assert found.pick is not None
    assert found.pick.name in names
    manifests = [one.manifest for one in found.front]
    assert all(manifests.count(one) == 1 for one in manifests)


def test_the_ten_best_are_tried_again_and_a_much_dearer_one_is_no_pick(found: Advice) -> None:
    """Also where fewer than ten cost about as little as the cheapest; the front says what holds."""
    again = {row.candidate for row in found.robust}
    regrets = {one.name: one.regret for one in found.front if one.regret is not None}

    assert max(regrets.values()) > min(regrets.values()) + 0.2
    assert again >= regrets.keys()
    assert found.pick is not None
    assert found.pick.regret is not None
    assert found.pick.regret <= min(regrets.values()) + 0.2


def test_a_rival_that_does_not_fit_is_dropped_by_name() -> None:
    """More pods than partitions."""
    spec = {**PRESENT["spec"], "maxReplicaCount": 9}  # type: ignore[dict-item]
    rival = Policy.load({**PRESENT, "spec": spec}, where="many")

    answer = search(question(rivals={"many": rival}), backwards)

    assert ("many", "does not fit") in {(one.candidate, one.reason[:12]) for one in answer.dropped}


def test_a_rival_that_cannot_be_simulated_is_dropped_by_name() -> None:
    """Its query is not one that the simulator plays; the search goes on."""
    query = {"serverAddress": "http://p:9090", "query": "up", "threshold": "5"}
    spec = {**PRESENT["spec"], "triggers": [{"type": "prometheus", "metadata": query}]}  # type: ignore[dict-item]
    rival = Policy.load({**PRESENT, "spec": spec}, where="opaque")

    answer = search(question(rivals={"opaque": rival}), backwards)

    assert answer.pick is not None
    assert [one.candidate for one in answer.dropped][:1] == ["opaque"]


@pytest.mark.parametrize("bounds", [{"max_replicas": 3}, {"min_replicas": 2}])
def test_no_policy_outside_the_bounds_that_were_asked_is_advised(bounds: dict[str, int]) -> None:
    """Neither the present policy nor a rival, which have 1 to 4 pods and hold the SLO.

    A line of theirs does not come back into the pick either, although the load needs two pods.
    """
    low = scenario(profile=SPIKE.profile.model_dump() | {"spike_mult": 2})
    rival = Policy.load(PRESENT, where="rival")

    answer = search(question(low, slos={P99: 60.0}, rivals={"rival": rival}, **bounds), backwards)

    assert [
        (one and one.holds, one and one.regret) for one in (answer.present, *answer.rivals)
    ] == [
        (True, None),
        (True, None),
    ]
    assert answer.pick is not None
    spec = answer.pick.manifest["spec"]
    assert spec["minReplicaCount"] >= bounds.get("min_replicas", 0)
    assert spec["maxReplicaCount"] <= bounds.get("max_replicas", 4)


def test_a_pick_with_fewer_pods_than_the_hottest_partition_needs_says_so() -> None:
    """Which pod reads what else is drawn; with a pod for each partition nothing is."""

    def is_said(**bounds: int) -> bool:
        answer = search(question(slos={P99: 60.0}, **bounds), backwards)
        assert answer.pick is not None
        return any("keeps up from 4 on" in one for one in answer.reasons)

    assert is_said(max_replicas=3)
    assert not is_said(min_replicas=4)


def test_another_kind_of_scaler_has_to_go_first() -> None:
    """KEDA's webhook rejects a ScaledObject on a target that an HPA has already."""
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    target = {**policies.TARGET, "name": "consumer"}
    metrics = [{"type": "Resource", "resource": cpu}]
    hpa = policies.hpa(scaleTargetRef=target, minReplicas=1, maxReplicas=4, metrics=metrics)

    answer = search(question(present=Policy.load(hpa, where="hpa")), backwards)

    assert answer.pick is not None
    assert answer.pick.manifest["kind"] == "ScaledObject"
    assert any("HorizontalPodAutoscaler has to go first" in one for one in answer.reasons)


def test_limits_that_contradict_each_other_say_so() -> None:
    """A low p99 needs many pods, a low cost few: each alone is possible."""
    answer = search(question(slos={P99: 8.0, "pod_minutes": 4.2}), backwards)

    assert answer.outcome == "no_policy"
    assert "together" in answer.reasons[-1]


def test_a_policy_that_adds_no_pod_has_no_reaction() -> None:
    """A fixed number of pods reacts to nothing: it breaks the SLO unless more could not help."""
    asked = question(slos={REACTION: 30.0})
    judge, place = Judge(asked), Place("short", SPIKE, asked.environment, "")

    def value(floor: int) -> float:
        spec = {**PRESENT["spec"], "minReplicaCount": floor, "maxReplicaCount": floor}  # type: ignore[dict-item]
        policy = Policy.read({**PRESENT, "spec": spec}, where="fixed")
        rows = evaluate_job(new_job("fixed", policy.manifest, place, range(1))).rows
        return float(judge.values(rows, place, policy.limits)[0, 0])

    assert [value(1), value(4)] == [float("inf"), 0.0]


def test_a_job_is_plain_data_and_its_draws_are_those_of_the_simulator() -> None:
    """It pickles; a draw does not depend on the block that it is in."""
    place = Place("short", SPIKE, SimulatedEnvironment(tail_seconds=60.0), "1")
    job = pickle.loads(pickle.dumps(new_job("present", PRESENT, place, range(3))))  # noqa: S301
    rows = evaluate_job(job).rows

    assert rows[2:] == evaluate_job(new_job("present", PRESENT, place, range(2, 3))).rows
    around = SimulatedEnvironment(tail_seconds=60.0, hpa_sync_at_seconds=0.0)
    plain = simulate(SPIKE, Policy.read(PRESENT, where=""), environment=around, draw=0)
    assert rows[0][KEPT.index("pod_minutes")] == plain.measures.pod_minutes


@pytest.mark.parametrize(
    "place",
    [
        Place("short", SPIKE, SimulatedEnvironment(), "2"),
        Place("short", SPIKE, SimulatedEnvironment(tail_seconds=1.0), "1"),
        Place("short", scenario(seed=5), SimulatedEnvironment(), "1"),
    ],
    ids=["code", "environment", "scenario"],
)
def test_the_key_names_all_that_an_outcome_depends_on(place: Place) -> None:
    """Policy, scenario, assumptions, draws and code; not the name."""
    first = Place("first", SPIKE, SimulatedEnvironment(), "1")
    key = new_job("a", PRESENT, first, range(2)).key

    assert new_job("a", PRESENT, place, range(2)).key != key
    assert new_job("a", PRESENT, first, range(3)).key != key
    assert new_job("b", PRESENT, first, range(2)).key == key


def test_a_distribution_of_costs_is_scaled_as_a_whole() -> None:
    """The variant with slower work has the same shape."""
    cost = LognormalCost(kind="lognormal", mean_ms=4, p99_ms=20)
    slow = Place(
        "s", scenario(consumer={"process_ms": cost.model_dump()}), SimulatedEnvironment(), ""
    )

    work = dict(variants(slow))["process_ms +20 %"].scenario.consumer.process_ms

    assert isinstance(work, LognormalCost)
    assert (work.mean_ms, work.p99_ms) == pytest.approx((4.8, 24))
