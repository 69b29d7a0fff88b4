"""What is found once bursts, a shutdown or a failing source are looked at beside the policy."""

from typing import Any

import pytest
from tests.unit.core.policy.review.test_findings import (
    CPU,
    EXTERNAL,
    behavior,
    kafka,
    policy,
)

from lagbench.core.policy.review.finding import Finding, PolicyContext
from lagbench.core.policy.review.policy_file import review_documents
from lagbench.core.policy.review.policy_review import review_policy


def found(code: str, context: PolicyContext | None = None, **spec: Any) -> list[Finding]:
    """Return the findings of a code in a good policy with these fields."""
    review = review_policy(policy(**spec), where="file", context=context)
    return [item for item in review.findings if item.code == code]


def percent(value: int) -> dict[str, Any]:
    """Return ``advanced`` with a scale-up of so many percent per 15 s."""
    rule = {"type": "Percent", "value": value, "periodSeconds": 15}
    return behavior(scaleUp={"policies": [rule]})


def deployment(**pod: Any) -> dict[str, Any]:
    """Return the target of the good policy with these fields of its pods."""
    spec = {"containers": [{"name": "c"}], **pod}
    return {
        "kind": "Deployment",
        "metadata": {"name": "w"},
        "spec": {"template": {"spec": spec}},
    }


def grace(shutdown: float | None, **pod: Any) -> list[Finding]:
    """Return what is found of the grace period of such pods, which take so long to shut down."""
    context = PolicyContext(shutdown_seconds=shutdown)
    file = review_documents([deployment(**pod), policy()], where="file", context=context)
    return [item for item in file.policies[0].findings if item.code == "grace-period-short"]


def test_two_hundred_percent_triples() -> None:
    """What the HPA adds is told as what it leads to; 100 % really doubles, and is not told of."""
    for percents, times in ((200, "3"), (150, "2.5")):
        (finding,) = found("percent-is-added", advanced=percent(percents))
        assert f"{times} times" in finding.happens
    assert not found("percent-is-added", advanced=percent(100))


def test_two_hundred_percent_is_what_the_climb_shows() -> None:
    """The HPA's own arithmetic agrees: 2 become 6 in one sync."""
    review = review_policy(policy(advanced=percent(200)), where="file")

    assert review.climb[:2] == (2, 6)


@pytest.mark.parametrize("remote", [kafka(), EXTERNAL])
def test_cpu_beside_a_lag_trigger_is_no_net_for_its_source(remote: dict[str, Any]) -> None:
    """One polled trigger and CPU: only scaling up is left."""
    (alone,) = found("resource-holds-one-way", triggers=[remote, CPU])

    assert alone.level == "warning"


@pytest.mark.parametrize(
    ("remote", "threshold", "engages"),
    [(kafka(), 0, True), (kafka(), 3, False), (EXTERNAL, 0, False)],
)
def test_a_fallback_takes_the_warning_away_only_where_it_engages(
    remote: dict[str, Any], threshold: int, engages: bool
) -> None:
    """With the broker down a threshold of 0 does; without the external scaler none does."""
    fallback = {"failureThreshold": threshold, "replicas": 6}
    warned = found("resource-holds-one-way", triggers=[remote, CPU], fallback=fallback)

    assert bool(warned) is not engages


def test_without_a_topic_the_sum_over_the_group_is_reported() -> None:
    """KEDA sums all topics; the advice is to name one."""
    (finding,) = found("all-topics", triggers=[kafka(topic="")])

    assert finding.level == "warning"


@pytest.mark.parametrize(
    ("pod", "shutdown", "instead"),
    [
        ({}, 45.0, "45 or more"),
        ({"terminationGracePeriodSeconds": 40}, 40.5, "41 or more"),
        (
            {"containers": [{"name": "c", "lifecycle": {"preStop": {"sleep": {"seconds": 20}}}}]},
            15.0,
            "35 or more",
        ),
        (
            {"containers": [{"name": "c", "lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}]},
            None,
            "31 or more",
        ),
    ],
)
def test_a_grace_period_below_the_shutdown_time_is_reported(
    pod: dict[str, Any], shutdown: float | None, instead: str
) -> None:
    """The default of 30 s counts, and a preStop sleep is taken off the same time."""
    assert [item.instead for item in grace(shutdown, **pod)] == [instead]


def test_a_grace_period_that_suffices_or_an_unknown_shutdown_time_is_not_reported() -> None:
    """Exactly enough is enough."""
    assert not grace(40.0, terminationGracePeriodSeconds=40)
    assert not grace(None, terminationGracePeriodSeconds=1)


@pytest.mark.parametrize(
    ("window", "pause", "codes"),
    [
        (60, 120.0, ["down-window-under-pause"]),
        (120, 120.0, []),
        (20, 10.0, []),
        (20, None, ["down-window-short"]),
    ],
)
def test_a_scale_down_window_is_compared_with_the_known_pause(
    window: int, pause: float | None, codes: list[str]
) -> None:
    """With a pause that is known its length decides; without, a short window is told."""
    context = PolicyContext(pause_seconds=pause)
    advanced = behavior(scaleDown={"stabilizationWindowSeconds": window})
    review = review_policy(policy(advanced=advanced), where="file", context=context)

    assert [code for code in review.codes if code.startswith("down-window")] == codes


def test_the_default_window_is_compared_as_well() -> None:
    """Without a behavior the HPA waits 300 s: too short for a pause of ten minutes."""
    context = PolicyContext(pause_seconds=600)

    assert found("down-window-under-pause", context, advanced=None)
    assert found("down-window-under-pause", context, advanced=behavior(scaleUp={}))


@pytest.mark.parametrize(
    ("address", "instead"),
    [
        (
            "http://lag-scaler.default.svc.cluster.local",
            "lag-scaler.default.svc.cluster.local:6000",
        ),
        ("http://lag-scaler:7000/", "lag-scaler:7000"),
        ("lag-scaler", "lag-scaler:6000"),
    ],
)
def test_the_suggested_address_is_not_warned_of_in_its_turn(address: str, instead: str) -> None:
    """It has a port, so a second check is silent."""

    def addresses(value: str) -> list[Finding]:
        trigger = {"type": "external", "metadata": {"scalerAddress": value}}
        return found("scaler-address", triggers=[trigger])

    assert [item.instead for item in addresses(address)] == [instead]
    assert not addresses(instead)
