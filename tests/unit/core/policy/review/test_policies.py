"""Every policy of the catalog is accepted, can run, and warns of what it is meant to show."""

import pytest

from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.catalog.catalog import policy_file
from lagbench.catalog.catalog_files import list_policies
from lagbench.catalog.strict_yaml import parse_documents, read_text
from lagbench.core.policy.review.finding import PolicyContext
from lagbench.core.policy.review.policy_file import review_documents
from lagbench.core.policy.review.policy_review import PolicyReview

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


def review(name: str, context: PolicyContext | None = None) -> PolicyReview:
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

    found = review(name, PolicyContext(partitions=partitions))

    assert found.is_accepted
    assert found.can_run
    warnings = {item.code for item in found.findings if item.level == "warning"}
    assert (warnings, found.climb) == EXPECTED[name]


def test_the_three_thresholds_are_distinguished_by_rate_and_promise() -> None:
    """At 4,000/s per pod and 10 s one is noise, one is low, one breaks the promise."""
    context = PolicyContext(partitions=24, pod_rate=4000, slo_seconds=10, base_rate=6000)

    codes = {name: set(review(f"lag-threshold-{name}", context).codes) for name in ("1k", "10k")}
    high = review("lag-threshold-100k", context)

    assert codes["1k"] >= {"scales-on-noise", "threshold-suggestion"}
    assert "scales-on-noise" not in codes["10k"]
    assert "threshold-breaks-slo" in high.codes
    assert high.suggested_lag_threshold == 30_000
