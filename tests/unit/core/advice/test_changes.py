"""The lines that a pick changes, and what each of them does."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from tests.fakes.advices import advice, candidate

from lagbench.catalog.catalog import load_policy, load_scenario
from lagbench.core.advice.candidates import Draft
from lagbench.core.advice.changes import with_changes, with_fewest_changes
from lagbench.core.advice.job import KEPT, Job, Outcome
from lagbench.core.advice.judge import Judge
from lagbench.core.advice.model import AskedSlo
from lagbench.core.advice.question import Question
from lagbench.core.advice.race import Entry, Race

SLO = AskedSlo(name="time_lag_p99_seconds", limit=30.0)
PATH = "spec.advanced.horizontalPodAutoscalerConfig.behavior."


def outcome(job: Job) -> Outcome:
    """Return a cost and a time lag that follow two fields of the policy."""
    spec = job.manifest["spec"]
    values = dict.fromkeys(KEPT, 0.0)
    values["pod_minutes_in_all"] = 10.0 * spec.get("minReplicaCount", 0)
    values["time_lag_p99_seconds"] = int(spec["triggers"][0]["metadata"]["lagThreshold"]) / 50
    return Outcome(job.key, (tuple(values.values()),) * job.draws)


def test_each_line_is_taken_back_alone() -> None:
    """By simulations of the pick without it; of one that cannot stand alone it says why."""
    present, pick = candidate("present", "lag-quick"), candidate("lag-1", "lag-quick")
    before, after = deepcopy(present.manifest), deepcopy(pick.manifest)
    before["spec"]["triggers"][0]["metadata"]["lagThreshold"] = "2000"
    before["spec"]["maxReplicaCount"] = 1
    after["spec"] |= {"minReplicaCount": 3}
    behavior = after["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    del behavior["scaleDown"], behavior["scaleUp"]["stabilizationWindowSeconds"]
    del behavior["scaleUp"]["selectPolicy"]
    asked = advice(
        slo=SLO,
        pick=pick.model_copy(update={"manifest": after}),
        present=present.model_copy(update={"manifest": before}),
    )
    question = Question([load_scenario("quick_spike")], [SLO], load_policy("lag-quick"))
    jobs: list[Job] = []

    def evaluate(given: Sequence[Job]) -> list[Outcome]:
        jobs.extend(given)
        return [outcome(job) for job in given]

    found = {one.field: one for one in with_changes(question, asked, evaluate).changes}

    floor = found["spec.minReplicaCount"]
    assert (floor.before, floor.after, floor.pod_minutes, floor.holds) == ("2", "3", 20.0, True)
    lag = found["spec.triggers[0].metadata.lagThreshold"]
    assert (lag.before, lag.slo_value, lag.holds) == ("2000", 40.0, False)
    assert "40.0 s instead of 10.0 s" in lag.effect
    window = found[f"{PATH}scaleDown.stabilizationWindowSeconds"]
    assert (window.before, window.after) == ("20", "300 (default)")
    assert not [name for name in found if "scaleUp" in name]  # they were written as the default
    refused = found["spec.maxReplicaCount"]
    assert (refused.pod_minutes, refused.holds) == (None, None)
    assert refused.effect.startswith("not alone: ")
    assert len(jobs) == len(found)  # the pick, and each line but the refused one


def test_each_line_has_a_reason() -> None:
    """Also one that no candidate of the search sets, and one that had KEDA's default."""
    present, pick = candidate("present", "lag-quick"), candidate("lag-1", "lag-quick")
    before, after = deepcopy(present.manifest), deepcopy(pick.manifest)
    del before["spec"]["minReplicaCount"]
    after["spec"]["pollingInterval"] = 17
    after["spec"]["triggers"][0]["metadata"]["ensureEvenDistributionOfPartitions"] = "true"
    asked = advice(
        slo=SLO,
        pick=pick.model_copy(update={"manifest": after}),
        present=present.model_copy(update={"manifest": before}),
    )
    question = Question([load_scenario("quick_spike")], [SLO], load_policy("lag-quick"))

    changes = with_changes(question, asked, lambda jobs: map(outcome, jobs)).changes

    found = {one.field.rpartition(".")[2]: (one.before, bool(one.reason)) for one in changes}
    assert found == {
        "minReplicaCount": ("0 (default)", True),
        "pollingInterval": (None, True),
        "ensureEvenDistributionOfPartitions": (None, True),
    }


def test_without_a_present_policy_nothing_changes() -> None:
    """There is nothing to compare with, so nothing is simulated."""
    question = Question([load_scenario("quick_spike")], [SLO])

    assert with_changes(question, advice(slo=SLO, present=None), lambda _: []).changes == ()


def test_a_line_that_changes_nothing_goes_back() -> None:
    """What the simulation shows no effect of is not advised; a cheaper floor stays."""
    present = load_policy("lag-quick")
    manifest = deepcopy(dict(present.manifest))
    manifest["spec"] |= {"minReplicaCount": 1, "maxReplicaCount": 11}
    behavior = manifest["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    behavior["scaleUp"]["tolerance"] = 0.2
    knobs = {"minReplicaCount": 1, "maxReplicaCount": 11, "scaleUp.tolerance": 0.2}
    question = Question([load_scenario("quick_spike")], [SLO], present, draws=(2, 7))
    race = Race(Judge(question), list(question.places.values()), lambda jobs: map(outcome, jobs))
    entry = Entry(Draft("lag-1", "lag", manifest, knobs), present.limits)
    race.extend([entry], race.places, 7)

    [found] = with_fewest_changes(race, [entry])

    least = deepcopy(dict(present.manifest))
    least["spec"]["minReplicaCount"] = 1
    assert found.draft.manifest == least
    assert found.draft.name != "lag-1"
    top = present.manifest["spec"]["maxReplicaCount"]
    expected = {"minReplicaCount": 1, "maxReplicaCount": top, "scaleUp.tolerance": None}
    assert found.draft.knobs == expected
    assert len(found.rows["quick_spike"]) == 7
