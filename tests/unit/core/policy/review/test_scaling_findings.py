"""What is found in how a policy scales: climb, windows, threshold; and in the catalog's."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.policies import (
    behavior,
    cron,
    kafka,
)
from tests.unit.core.policy.review.test_findings import (
    IDLE,
    OF_ITS_TARGET,
    found,
    percent,
    review,
    window,
)

from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.catalog.catalog import policy_file
from lagbench.catalog.catalog_files import list_policies
from lagbench.catalog.strict_yaml import parse_documents, read_text
from lagbench.core.policy.review.policy_file import review_documents
from lagbench.core.policy.review.policy_review import PolicyReview
from lagbench.core.policy.review.subject import PolicyContext

ONE_POD = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]}


def on(partitions: int | None, **spec: Any) -> PolicyReview:
    """Return the review on a topic of so many partitions."""
    return review(context=PolicyContext(partitions=partitions), **spec)


@pytest.mark.parametrize(
    ("annotations", "syncs", "every"), [({}, 2, 15), ({"lagbench.io/hpa-sync-seconds": "5"}, 5, 5)]
)
def test_a_window_is_counted_in_the_syncs_of_the_policy(
    annotations: dict[str, str], syncs: int, every: int
) -> None:
    """20 s are two syncs, or five if the annotation sets 5 s."""
    short = behavior(scaleDown=window(20))
    reviewed = review(annotations, advanced=short, pollingInterval=10)

    assert f"at most {syncs} syncs" in found(reviewed, "down-window-short").happens
    assert f"every {every} s" in found(reviewed, "polling-interval-ignored").happens


@pytest.mark.parametrize(
    ("partitions", "spec", "climb", "level"),
    [
        (12, {"minReplicaCount": 3, "advanced": behavior(
            scaleUp={"policies": [{"type": "Pods", "value": 2, "periodSeconds": 15}]}
        )}, (3, 5, 7, 9, 11), "warning"),
        (12, {"advanced": percent(200)}, (2, 6, 12), "note"),
        (24, {"maxReplicaCount": 23, "advanced": behavior(scaleUp=ONE_POD)}, 22, "warning"),
        (24, {"maxReplicaCount": 24, "advanced": behavior(scaleUp=ONE_POD)}, 22, "warning"),
        (100, {"maxReplicaCount": 24, "advanced": behavior(scaleUp=ONE_POD)}, 24, None),
        (None, {"maxReplicaCount": 24, "advanced": behavior(scaleUp=ONE_POD)}, 24, None),
        (24, {
            "maxReplicaCount": 24,
            "advanced": behavior(scaleUp=ONE_POD),
            "triggers": [kafka(**IDLE)],
        }, 24, None),
        (12, {"triggers": [cron(5)]}, (), None),
    ],
)  # fmt: skip
def test_where_a_climb_ends(
    partitions: int | None, spec: dict[str, Any], climb: Any, level: str | None
) -> None:
    """A metric capped at 24 is near enough to 22 for the HPA; the ceiling only cuts off."""
    reviewed = on(partitions, **spec)
    sticks = [item.level for item in reviewed.findings if item.code == "cap-sticks"]

    assert (reviewed.climb if isinstance(climb, tuple) else reviewed.climb[-1]) == climb
    assert sticks == ([] if level is None else [level])


def test_under_a_formula_the_trigger_s_threshold_is_no_lag_per_replica() -> None:
    """No gain, no rest, no word against the SLO come from a number that the HPA never sees."""
    context = PolicyContext(partitions=12, pod_rate=500, slo_seconds=30)
    reviewed = review(context=context, **OF_ITS_TARGET)

    assert (reviewed.loop_gain, reviewed.standing_lag_seconds) == (None, None)
    assert not {"threshold-suggestion", "threshold-breaks-slo"} & {*reviewed.codes}


@pytest.mark.parametrize(("slo", "is_said"), [(5, True), (30, False)])
def test_a_suggested_threshold_says_its_loop_gain(slo: float, is_said: bool) -> None:
    """500/s x 5 s x 0.75 has a gain of 4: without a window the replicas swing by themselves."""
    context = PolicyContext(partitions=12, pod_rate=500, slo_seconds=slo)
    reviewed = review(context=context, triggers=[kafka(lagThreshold="100000")])

    assert (" 4.0 " in found(reviewed, "threshold-breaks-slo").instead) is is_said


@pytest.mark.parametrize(
    ("seconds", "pause", "codes"),
    [
        (60, 120.0, ["down-window-under-pause"]),
        (120, 120.0, []),
        (20, 10.0, []),
        (20, None, ["down-window-short"]),
        (None, 600.0, ["down-window-under-pause"]),  # the default of 300 s
    ],
)
def test_a_scale_down_window_is_compared_with_the_known_pause(
    seconds: int | None, pause: float | None, codes: list[str]
) -> None:
    """With a pause that is known its length decides; without, a short window is told."""
    for rules in ({}, {"scaleUp": {}}) if seconds is None else ({"scaleDown": window(seconds)},):
        advanced = behavior(**rules) if rules else None  # type: ignore[arg-type]
        reviewed = review(context=PolicyContext(pause_seconds=pause), advanced=advanced)
        assert [code for code in reviewed.codes if code.startswith("down-window")] == codes


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
