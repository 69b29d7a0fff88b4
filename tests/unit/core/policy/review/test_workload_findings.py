"""What is found once bursts, a shutdown or a failing source are looked at beside the policy."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.policy.review.test_findings import (
    CPU,
    EXTERNAL,
    behavior,
    kafka,
    policy,
)

from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.catalog.catalog import policy_file
from lagbench.catalog.catalog_files import list_policies
from lagbench.catalog.strict_yaml import parse_documents, read_text
from lagbench.core.policy.finding import Finding
from lagbench.core.policy.review.policy_file import review_documents
from lagbench.core.policy.review.policy_review import PolicyReview, review_policy
from lagbench.core.policy.review.subject import PolicyContext


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


ONE_POD = behavior(scaleUp={"policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]})


def review(partitions: int | None, **spec: Any) -> PolicyReview:
    """Return the review of a policy that adds one pod per sync."""
    context = PolicyContext(partitions=partitions, pod_rate=500, slo_seconds=30)
    return review_policy(policy(advanced=ONE_POD, **spec), where="file", context=context)


def finding(found: PolicyReview, code: str) -> Finding:
    """Return the one finding of a code."""
    (only,) = [item for item in found.findings if item.code == code]
    return only


@pytest.mark.parametrize(
    ("partitions", "idles", "top"),
    [(100, "false", 24), (24, "true", 24), (None, "false", 24), (24, "false", 22)],
)
def test_only_the_cap_of_the_metric_holds_a_climb_below_the_ceiling(
    partitions: int | None, idles: str, top: int
) -> None:
    """The ceiling of 24 cuts off a higher proposal; a metric capped at 24 stays near enough."""
    triggers = [kafka(allowIdleConsumers=idles)]
    found = review(partitions, maxReplicaCount=24, triggers=triggers)

    assert found.climb[-1] == top


def test_a_ceiling_just_below_the_partitions_is_not_reached() -> None:
    """24 wanted and 22 there is within the tolerance of 10 %, so 23 never come."""
    found = review(24, maxReplicaCount=23)

    sticks = finding(found, "cap-sticks")
    assert (sticks.level, found.climb[-1]) == ("warning", 22)


def composite(threshold: str, target: str) -> dict[str, Any]:
    """Return the spec of a formula that is the lag of its only trigger."""
    modifiers = {"formula": "lag", "target": target}
    return {
        "triggers": [{**kafka(lagThreshold=threshold), "name": "lag"}],
        "advanced": {**ONE_POD, "scalingModifiers": modifiers},
    }


def test_under_a_formula_the_trigger_s_threshold_is_no_lag_per_replica() -> None:
    """No gain, no rest, no word against the SLO come from a number that the HPA never sees."""
    spec = composite("5", "5")
    context = PolicyContext(partitions=12, pod_rate=500, slo_seconds=30)
    found = review_policy(policy(**spec), where="file", context=context)

    assert (found.loop_gain, found.standing_lag_seconds) == (None, None)
    assert not {"threshold-suggestion", "threshold-breaks-slo", "cap-sticks"} & {*found.codes}
    assert "composite-targets" in found.codes


def test_a_formula_whose_target_is_far_above_the_capped_lag_is_warned_of() -> None:
    """12 partitions x 5 are 60, and 60 of 11,250 is one replica, whatever the lag."""
    context = PolicyContext(partitions=12)
    spec = composite("5", "11250")
    found = review_policy(policy(**spec), where="file", context=context)

    capped = finding(found, "composite-capped")
    assert capped.level == "warning"
    assert " 1 " in capped.happens
    assert "11250" in capped.instead


@pytest.mark.parametrize("spec", [composite("500", "500"), composite("6000", "500")])
def test_a_formula_with_the_trigger_s_own_target_reaches_the_partitions(
    spec: dict[str, Any],
) -> None:
    """The cap divided by the target is one replica per partition, or more."""
    context = PolicyContext(partitions=12)
    found = review_policy(policy(**spec), where="file", context=context)

    assert "composite-capped" not in found.codes


def test_a_target_of_the_whole_group_has_no_cap_that_sticks() -> None:
    """Its ratio multiplies the ready pods: it neither leaks one replica nor sticks."""
    found = review(24, maxReplicaCount=48, triggers=[{**kafka(), "metricType": "Value"}])

    assert "cap-sticks" not in found.codes
    assert " 24 " in finding(found, "max-over-partitions").happens


@pytest.mark.parametrize(("slo", "is_said"), [(5, True), (30, False)])
def test_a_suggested_threshold_says_its_loop_gain(slo: float, is_said: bool) -> None:
    """500/s x 5 s x 0.75 has a gain of 4: without a window the replicas swing by themselves."""
    context = PolicyContext(partitions=12, pod_rate=500, slo_seconds=slo)
    triggers = [kafka(lagThreshold="100000")]
    found = review_policy(policy(triggers=triggers), where="file", context=context)

    advice = finding(found, "threshold-breaks-slo").instead
    assert (" 4.0 " in advice) is is_said


# Codes of the warnings (not of the notes), and the way up under full lag.
EXPECTED: dict[str, tuple[set[str], tuple[int, ...]]] = {
    "cpu-only": ({"down-window-short", "lag-not-seen"}, ()),
    "cron-prewarm-plus-lag": ({"failing-trigger-blocks"}, (2, 6, 12)),
    "lag-cpu-safety-net": ({"resource-holds-one-way"}, (2, 6, 12)),
    "lag-default": (set(), (2, 4, 8, 12)),
    "lag-even-distribution": (set(), (2, 12)),
    "lag-fast-up-slow-down": (set(), (2, 6, 12)),
    "lag-hello": ({"down-window-short"}, (2, 4)),
    "lag-no-hysteresis": ({"down-window-short"}, (2, 12)),
    "lag-overscale-2p": ({"down-window-short", "max-over-partitions"}, (2, 13, 24)),
    "lag-partitions-with-lag": (set(), (2, 6, 12)),
    "lag-quick": ({"down-window-short"}, (2, 6, 12)),
    "lag-spark": ({"down-window-short"}, (2, 4)),
    "lag-standard": (set(), (2, 8, 24)),
    "lag-threshold-100k": (set(), (2, 6, 12, 24)),
    "lag-threshold-10k": (set(), (2, 6, 12, 24)),
    "lag-threshold-1k": (set(), (2, 6, 12, 24)),
    "persistent-lag": (set(), (2, 4, 8, 12)),
    "persistent-lag-aggressive": (set(), (2, 4, 8, 12)),
    "persistent-lag-conservative": (set(), (2, 4, 8, 12)),
    "persistent-lag-cost-optimised": (set(), (2, 6, 12)),
    "production": (set(), (3, 9, 12)),
    "prometheus-lag": ({"down-window-short"}, (2, 6, 12)),
    "projected-lag": (set(), (2, 4, 8, 12)),
    "scale-to-zero": (set(), (1, 5, 10, 12)),
}

OF_24_PARTITIONS = ("lag-standard", "lag-threshold-1k", "lag-threshold-10k", "lag-threshold-100k")


def review_of_policies(name: str, context: PolicyContext | None = None) -> PolicyReview:
    """Return the review of a policy of the catalog, beside the workload that it scales."""
    path = policy_file(name)
    found = review_documents(
        parse_documents(read_text(path), where=name),
        where=name,
        context=context,
        workloads=(base_manifest("consumer", "Deployment"),),
    )
    return found.policies[0]


def test_every_policy_is_expected() -> None:
    """A new policy states here what it warns of."""
    assert set(list_policies()) == set(EXPECTED)


@pytest.mark.parametrize("name", list_policies())
def test_the_warnings_of_each_policy(name: str) -> None:
    """It is accepted, KEDA can run it, and only the listed warnings are raised."""
    partitions = 24 if name in OF_24_PARTITIONS else 12

    found = review_of_policies(name, PolicyContext(partitions=partitions))

    assert found.is_accepted
    assert found.can_run
    warnings = {item.code for item in found.findings if item.level == "warning"}
    assert (warnings, found.climb) == EXPECTED[name]


def test_the_three_thresholds_are_distinguished_by_rate_and_promise() -> None:
    """At 4,000/s per pod and 10 s one is noise, one is low, one breaks the promise."""
    context = PolicyContext(partitions=24, pod_rate=4000, slo_seconds=10, base_rate=6000)

    codes = {
        name: set(review_of_policies(f"lag-threshold-{name}", context).codes)
        for name in ("1k", "10k")
    }
    high = review_of_policies("lag-threshold-100k", context)

    assert codes["1k"] >= {"scales-on-noise", "threshold-suggestion"}
    assert "scales-on-noise" not in codes["10k"]
    assert "threshold-breaks-slo" in high.codes
    assert high.suggested_lag_threshold == 30_000
