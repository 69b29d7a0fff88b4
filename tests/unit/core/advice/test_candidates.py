"""The policies that are searched: complete, accepted, the same each time, around the rates."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.fakes.questions import DRAIN, P99, PRESENT, SPIKE, question, scenario

from lagbench.core.advice.candidates import Draft, Space
from lagbench.core.hpa.controller_flags import version_of
from lagbench.core.policy.policy import Policy, check_fit, check_policy
from lagbench.core.policy.review.policy_review import review_policy

OLDEST, NEWEST = "1.34", "1.37"


def drafts(**changes: object) -> list[Draft]:
    """Return the candidates of a question with a budget of 300."""
    return Space(question(budget=300, **changes)).drafts()


@pytest.mark.parametrize("kubernetes", [OLDEST, NEWEST])
def test_every_candidate_is_a_scaled_object_that_works(kubernetes: str) -> None:
    """The API server and KEDA accept it, the scenario fits, and ``policy check`` has no error."""
    found = drafts(kubernetes=kubernetes)

    for one in found[::7]:
        check_fit(SPIKE, check_policy(one.manifest, where=one.name))
        assert review_policy(one.manifest, where=one.name).can_run
    families = Counter(one.family for one in found)
    assert families.keys() == {"fixed", "lag", "lag-scaler", "backlog-slo", "cron"}
    assert sum(families.values()) <= 300


def test_the_same_question_has_the_same_candidates() -> None:
    """Name, manifest and order; no two are the same object."""
    first, second = drafts(), drafts()

    assert first == second
    assert len({one.name for one in first}) == len(first)


def test_a_candidate_keeps_what_the_search_does_not_set() -> None:
    """Names, target, login and polling of the present policy stay."""
    one = next(one for one in drafts() if one.family == "lag").manifest
    trigger = one["spec"]["triggers"][0]

    assert one["metadata"] == {"name": "orders", "namespace": "shop", "labels": {"team": "a"}}
    assert one["spec"]["scaleTargetRef"] == {"name": "orders"}
    assert one["spec"]["pollingInterval"] == 20
    assert trigger["authenticationRef"] == {"name": "login"}
    assert trigger["metadata"]["topic"] == "orders"


def test_without_a_present_policy_there_is_the_catalogs_target() -> None:
    """The candidates can be rehearsed."""
    one = Space(question(present=None)).fixed(2)

    assert check_policy(one.manifest, where=one.name).limits.floor_replicas == 2


def test_tolerance_and_push_are_for_a_kubernetes_that_reads_them() -> None:
    """Older ones drop the tolerance, and sync no HPA at once."""
    old, new = drafts(kubernetes=OLDEST), drafts()

    assert not any("scaleUp.tolerance" in one.knobs or "syncOnStep" in one.knobs for one in old)
    assert any(one.knobs.get("scaleUp.tolerance") == 0 for one in new)
    assert any(one.knobs.get("syncOnStep") for one in new)
    assert all(version_of(one.manifest) == OLDEST for one in old)
    assert drafts(kubernetes=NEWEST) == new


def test_thresholds_follow_the_rate_of_a_pod() -> None:
    """Ten times the rates and as fast pods have ten times the thresholds, and the same pods."""
    quick = scenario(
        profile=SPIKE.profile.model_dump() | {"rate_per_second": 2000},
        consumer={"process_ms": 0.4},
    )
    one, ten = Space(question()), Space(question(quick))

    assert [10 * value for value in one.thresholds] == ten.thresholds
    assert one.floors == ten.floors


@pytest.mark.parametrize(("window", "shortest"), [(None, 60), (300, 60), (20, 20)])
def test_no_window_is_shorter_than_a_minute_or_the_present_one(
    window: int | None, shortest: int
) -> None:
    """One load does not show the pauses in which pods would leave too soon."""
    down = {"stabilizationWindowSeconds": window} if window else {}
    config = {"horizontalPodAutoscalerConfig": {"behavior": {"scaleDown": down}}}
    present = Policy.read({**PRESENT, "spec": {**PRESENT["spec"], "advanced": config}}, where="p")  # type: ignore[dict-item]
    knob = "scaleDown.stabilizationWindowSeconds"

    assert min(one.knobs[knob] for one in drafts(present=present) if knob in one.knobs) == shortest  # type: ignore[type-var]


def test_an_slo_on_the_drain_allows_no_higher_threshold() -> None:
    """A backlog would count as drained at more lag."""
    assert max(Space(question(slos={DRAIN: 60.0})).thresholds) == 500
    assert max(Space(question(slos={P99: 60.0})).thresholds) > 500


def test_zero_pods_are_searched_only_where_the_load_pauses() -> None:
    """Else one pod has work all the time."""
    stages = [{"seconds": 30, "rate_per_second": rate} for rate in (200, 0, 200)]
    paused = scenario(profile={"kind": "stages", "stages": stages})

    assert Space(question()).floors[0] == 1
    assert Space(question(paused)).floors[0] == 0


@pytest.mark.parametrize(
    ("changes", "windows"),
    [
        ({}, [((0, 60),)]),
        ({"hpa_sync_at_seconds": 3}, []),
        ({"profile": {"kind": "steady", "rate_per_second": 200, "duration_seconds": 60}}, []),
    ],
)
def test_cron_windows_open_before_the_scenarios_own_spikes(
    changes: dict[str, object], windows: list[tuple[tuple[int, int], ...]]
) -> None:
    """In whole minutes; not with a fixed phase of the sync, nor without a spike."""
    assert Space(question(scenario(**changes))).cron_windows == windows


def test_a_day_of_many_spikes_has_a_few_windows() -> None:
    """Nine spikes: the three shortest pauses are left out; the last window ends before midnight."""
    pauses = [600, 3600, 700, 3600, 800, 3600, 3600, 3600]
    rest = 86_400 - sum(pauses) - 9 * 300
    seconds = [rest, *(part for pause in pauses for part in (300, pause)), 300]
    stages = [
        {"seconds": length, "rate_per_second": 800 if number % 2 else 100}
        for number, length in enumerate(seconds)
    ]

    (windows, *_) = Space(
        question(scenario(profile={"kind": "stages", "stages": stages}))
    ).cron_windows

    assert [(end - start) // 300 for start, end in windows] == [4, 4, 5, 1, 1, 1]
    assert windows[-1][1] < 86_400


def test_bounds_of_the_user_hold_for_each_candidate() -> None:
    """Floor and ceiling."""
    for one in drafts(min_replicas=2, max_replicas=3):
        spec = one.manifest["spec"]
        assert 2 <= spec["minReplicaCount"] <= spec["maxReplicaCount"] <= 3


@pytest.mark.parametrize(("most", "pods"), [(4, [4]), (3, [])])
def test_hours_have_the_pods_that_the_hottest_partition_needs(most: int, pods: list[int]) -> None:
    """Four for 800/s; a maximum below that leaves no cron, and does not become the need."""
    space = Space(question(max_replicas=most))

    assert (space.hottest_needs, space.cron_pods) == (4, pods)
