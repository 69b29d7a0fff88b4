"""What is found in a policy: each code where it belongs, and not where it does not."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.policies import (
    CPU,
    EXTERNAL,
    LAG_SCALER,
    TARGET,
    behavior,
    composite,
    cron,
    hpa,
    kafka,
    prometheus,
    scaled_object,
)

from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.catalog.catalog import policy_file
from lagbench.catalog.catalog_files import list_policies
from lagbench.catalog.strict_yaml import parse_documents, read_text
from lagbench.core.hpa.controller_flags import KUBERNETES_ANNOTATION
from lagbench.core.keda.loop.keda_hpa import CONTROLLER, SCALED_BY
from lagbench.core.keda.object.scaled_object_spec import PAUSED
from lagbench.core.policy.finding import Finding
from lagbench.core.policy.review.policy_file import review_documents
from lagbench.core.policy.review.policy_review import PolicyReview, review_policy
from lagbench.core.policy.review.subject import KnownObjects, PolicyContext

CASES = Path(__file__).parents[4] / "data" / "keda_webhook_cases.json.gz"
EVEN = {"ensureEvenDistributionOfPartitions": "true"}
IDLE = {"allowIdleConsumers": "true"}
ONE_POD = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]}


def review(
    annotations: dict[str, str] | None = None, context: PolicyContext | None = None, **spec: Any
) -> PolicyReview:
    """Return the review of a good policy with these fields, by default on 12 partitions."""
    around = context or PolicyContext(partitions=12)
    return review_policy(scaled_object(annotations, **spec), where="file", context=around)


def on(partitions: int | None, **spec: Any) -> PolicyReview:
    """Return the review on a topic of so many partitions."""
    return review(context=PolicyContext(partitions=partitions), **spec)


def found(review: PolicyReview, code: str) -> Finding:
    """Return the one finding of a code."""
    (only,) = [item for item in review.findings if item.code == code]
    return only


def lag_scaler(**metadata: str) -> dict[str, Any]:
    """Return a trigger that calls the lag scaler, with some parameters more."""
    return {**LAG_SCALER, "metadata": {**LAG_SCALER["metadata"], **metadata}}  # type: ignore[dict-item]


def window(seconds: int) -> dict[str, int]:
    """Return the rules of one direction with a window."""
    return {"stabilizationWindowSeconds": seconds}


def percent(value: int) -> dict[str, Any]:
    """Return ``advanced`` with a scale-up of so many percent per 15 s."""
    rule = {"type": "Percent", "value": value, "periodSeconds": 15}
    return behavior(scaleUp={"policies": [rule]})


def activation(floor: int, records: str) -> dict[str, Any]:
    """Return the spec of a trigger that is active above so many records."""
    return {"minReplicaCount": floor, "triggers": [kafka(activationLagThreshold=records)]}


def test_a_plain_policy_warns_of_nothing() -> None:
    """Only the note on the tolerance at the cap is left."""
    assert review().codes == ("cap-sticks",)
    assert review().climb == (2, 6, 12)


@pytest.mark.parametrize(
    ("code", "level", "spec"),
    [
        ("min-absent", "warning", {"minReplicaCount": None}),
        ("max-absent", "warning", {"maxReplicaCount": None}),
        ("idle-flaps", "warning", {"minReplicaCount": 3, "idleReplicaCount": 1}),
        ("max-over-partitions", "warning", {"maxReplicaCount": 24}),
        ("polling-interval-ignored", "warning", {"pollingInterval": 10}),
        ("polling-interval-from-zero", "note", {"pollingInterval": 10, "minReplicaCount": 0}),
        ("cooldown-ignored", "warning", {"cooldownPeriod": 60}),
        ("initial-cooldown-ignored", "warning", {"initialCooldownPeriod": 60}),
        ("cached-metrics", "note", {"triggers": [{**kafka(), "useCachedMetrics": True}]}),
        ("no-behavior", "note", {"advanced": None}),
        ("up-window-waits", "note", {"advanced": behavior(scaleUp=window(300))}),
        ("down-window-short", "warning", {"advanced": behavior(scaleDown=window(0))}),
        ("tolerance-of-object", "note", {"advanced": behavior(scaleUp={"tolerance": "0.05"})}),
        (
            "tolerance-ignored",
            "warning",
            {
                "annotations": {KUBERNETES_ANNOTATION: "1.34"},
                "advanced": behavior(scaleUp={"tolerance": "0.05"}),
            },
        ),
        ("policies-empty", "warning", {"advanced": behavior(scaleUp={"policies": []})}),
        (
            "down-disabled",
            "warning",
            {"advanced": behavior(scaleDown={"selectPolicy": "Disabled"})},
        ),
        ("threshold-default", "warning", {"triggers": [kafka(lagThreshold="")]}),
        ("parameter-ignored", "warning", {"triggers": [kafka(authenticationMode="sasl")]}),
        ("parameter-ignored", "warning", {"triggers": [kafka(lagTreshold="5")]}),
        ("login-in-metadata", "warning", {"triggers": [kafka(password="x")]}),  # noqa: S106
        ("latest-hides-backlog", "warning", {"triggers": [kafka(offsetResetPolicy="latest")]}),
        ("persistent-lag-flaps", "warning", {"triggers": [kafka(excludePersistentLag="true")]}),
        ("limitation-ignored", "warning", {"triggers": [kafka(topic="", partitionLimitation="1")]}),
        ("all-topics", "warning", {"triggers": [kafka(topic="")]}),
        ("activation-ignored", "warning", {"triggers": [kafka(activationLagThreshold="5")]}),
        ("value-target", "warning", {"triggers": [{**kafka(), "metricType": "Value"}]}),
        ("even-never-zero", "note", {"triggers": [kafka(**EVEN)]}),
        ("idle-consumers-ignored", "warning", {"triggers": [kafka(**EVEN, **IDLE)]}),
        ("fallback-broker-down", "warning", {"fallback": {"failureThreshold": 3, "replicas": 6}}),
        ("fallback-to-zero", "warning", {"fallback": {"failureThreshold": 0, "replicas": 0}}),
        ("fallback-over-max", "warning", {"fallback": {"failureThreshold": 0, "replicas": 60}}),
        (
            "fallback-external",
            "warning",
            {"triggers": [EXTERNAL], "fallback": {"failureThreshold": 0, "replicas": 6}},
        ),
        (
            "fallback-void",
            "warning",
            {
                **composite("a + b", target="2.5"),
                "fallback": {"failureThreshold": 3, "replicas": 6},
            },
        ),
        ("failing-trigger-blocks", "warning", {"triggers": [kafka(), cron()]}),
        ("source-down-at-creation", "note", {"triggers": [kafka(), CPU]}),
        ("composite-negative", "warning", composite("a - b")),
        ("composite-targets", "note", composite("a + b")),
        ("lag-not-seen", "warning", {"triggers": [CPU]}),
        ("request-not-checked", "note", {"triggers": [kafka(), CPU]}),
        ("timezone-unknown", "broken", {"triggers": [cron(timezone="Mars/Base")]}),
        ("cron-over-max", "warning", {"triggers": [cron()], "maxReplicaCount": 4}),
        ("sustain-waits", "note", {"triggers": [LAG_SCALER]}),
        ("small-backlog-sleeps", "warning", {"triggers": [LAG_SCALER], "minReplicaCount": 0}),
        ("small-backlog-sleeps", "warning", {"triggers": [LAG_SCALER], "idleReplicaCount": 0}),
        ("lag-scaler-refuses", "broken", {"triggers": [lag_scaler(windowSize="2")]}),
        ("max-over-partitions", "warning", {"triggers": [kafka(), CPU], "maxReplicaCount": 24}),
        ("limitation-keeps-none", "broken", {"triggers": [kafka(partitionLimitation="11-0")]}),
        ("cron-under-floor", "warning", {"triggers": [kafka(), cron(1)]}),
        ("cron-by-clock", "note", {"triggers": [kafka(), cron(3)]}),
        ("resource-holds-one-way", "warning", {"triggers": [kafka(), CPU]}),
        ("resource-holds-one-way", "warning", {"triggers": [EXTERNAL, CPU]}),
        ("percent-is-added", "note", {"advanced": percent(150)}),
        ("activation-over-threshold", "warning", activation(0, "3000")),
        ("target-not-scalable", "broken", {"scaleTargetRef": {"name": "w", "kind": "DaemonSet"}}),
        ("operator-refuses", "broken", {"triggers": [kafka(lagThreshold="0")]}),
        ("hpa-refused", "broken", {"advanced": behavior(scaleDown=window(3601))}),
        ("not-rehearsed-here", "warning", {"triggers": [{"type": "rabbitmq", "metadata": {}}]}),
        ("not-rehearsed-here", "warning", composite("first([a, b])")),
        ("unknown-field", "refused", {"minReplicas": 3}),
        ("schema", "refused", {"pollingInterval": 0}),
        ("replica-counts", "refused", {"idleReplicaCount": 2}),
    ],
)
def test_each_code(code: str, level: str, spec: dict[str, Any]) -> None:
    """The finding is raised at its level, with a field and what happens."""
    found = [item for item in review(**spec).findings if item.code == code]

    assert {item.level for item in found} == {level}
    assert all(item.field and item.happens for item in found)


HOURS = {"triggers": [kafka(), cron(20)]}
REACHES = {"triggers": [{**kafka(lagThreshold="6000"), "name": "lag"}]}
OF_ITS_TARGET = {**REACHES, "advanced": {"scalingModifiers": {"formula": "lag", "target": "500"}}}


@pytest.mark.parametrize(
    ("code", "spec"),
    [
        # A pod that always runs, or a kafka trigger, reads a backlog below the threshold.
        ("small-backlog-sleeps", {"triggers": [LAG_SCALER], "minReplicaCount": 1}),
        ("small-backlog-sleeps", {"triggers": [LAG_SCALER, kafka()], "minReplicaCount": 0}),
        # Only a subtraction whose result goes to the HPA is warned of.
        ("composite-negative", composite("max(a - b, 0)")),
        ("composite-negative", composite("abs(a - b)")),
        ("composite-negative", composite("a - b > 0 ? a : b")),
        ("composite-negative", composite("a + b")),
        ("composite-capped", OF_ITS_TARGET),
        ("percent-is-added", {"advanced": percent(100)}),
        ("cron-under-floor", {"triggers": [kafka(), cron(1)], "minReplicaCount": 0}),
        ("activation-over-threshold", activation(0, "500")),
        ("activation-over-threshold", activation(2, "3000")),
        ("resource-holds-one-way", {
            "triggers": [kafka(), CPU], "fallback": {"failureThreshold": 0, "replicas": 6}
        }),
        ("cap-sticks", {"triggers": [{**kafka(), "metricType": "Value"}], "maxReplicaCount": 24}),
        *[
            ("server-address", {"triggers": [kafka(bootstrapServers=servers)]})
            for servers in ("k:9092", "a:1, b:65535", "[::1]:9092", "10.0.0.1:9092")
        ],
        *[
            ("many-series", {"triggers": [prometheus(query)]})
            for query in (
                "sum(a)",
                'sum by (topic) (a{topic="t"})',
                "max(a) or vector(0)",
                "ceil(sum(rate(a[5m])) / 2) > 1",
                "scalar(a)",
            )
        ],
    ],
)  # fmt: skip
def test_a_code_stays_away(code: str, spec: dict[str, Any]) -> None:
    """Something beside it makes it untrue."""
    assert code not in review(**spec).codes


@pytest.mark.parametrize(
    ("code", "spec", "said"),
    [
        ("max-over-partitions", {"triggers": [kafka(partitionLimitation="0-5")]}, "than 7 "),
        ("max-over-partitions", {"triggers": [kafka(partitionLimitation="0-5, 20")]}, "than 7 "),
        ("max-over-partitions", {
            "triggers": [kafka(), CPU], "maxReplicaCount": 16
        }, "4 replicas get none of the 12 partitions"),
        ("max-over-partitions", {
            "triggers": [{**kafka(), "metricType": "Value"}], "maxReplicaCount": 48
        }, "36 replicas"),
        ("max-over-partitions", {**HOURS, "maxReplicaCount": 50}, "than the 20 "),
        ("cron-over-partitions", {**HOURS, "maxReplicaCount": 20}, "8 of them"),
        ("even-counts", {"triggers": [kafka(partitionLimitation="0-5", **EVEN)]}, "1, 2, 3, 6 "),
        ("lag-not-seen", {"triggers": [cron(45)], "maxReplicaCount": 50}, "at most 45 "),
        ("activation-over-threshold", activation(0, "3000"), "501 to 3,000 "),
        ("percent-is-added", {"advanced": percent(200)}, "3 times"),
        ("percent-is-added", {"advanced": percent(150)}, "2.5 times"),
        ("composite-capped", {
            "triggers": [{**kafka(lagThreshold="5"), "name": "lag"}],
            "advanced": {"scalingModifiers": {"formula": "lag", "target": "11250"}},
        }, "more than 1 replicas"),
    ],
)  # fmt: skip
def test_what_a_finding_reckons_with(code: str, spec: dict[str, Any], said: str) -> None:
    """The number that is said is that of the partitions, the hours or the trigger."""
    assert said in found(review(**spec), code).happens


@pytest.mark.parametrize(
    ("annotations", "code"),
    [
        ({PAUSED: "true"}, "scaling-held"),
        ({PAUSED: "yes"}, "annotation-not-boolean"),
        ({"autoscaling.keda.sh/paused-scale-in": "true"}, "scaling-held"),
        ({"autoscaling.keda.sh/paused-replicas": "3"}, "scaling-held"),
        ({"autoscaling.keda.sh/paused-replicas": "abc"}, "paused-replicas"),
        ({SCALED_BY: CONTROLLER, PAUSED: "true"}, "handed-over"),
        ({SCALED_BY: CONTROLLER}, "two-controllers"),
        ({"lagbench.io/hpa-sync-seconds": "5"}, "own-controller-only"),
        ({KUBERNETES_ANNOTATION: "1.37"}, "kubernetes-version"),
        ({"lagbench.io/cron-windows": "soon"}, "cron-windows"),
    ],
)
def test_annotations_are_named(annotations: dict[str, str], code: str) -> None:
    """What stops scaling, or is read as if it did; a pause for KEDA alone holds nothing."""
    codes = review(annotations).codes

    assert code in codes
    assert ("scaling-held" in codes) is (code == "scaling-held")


@pytest.mark.parametrize(
    ("named", "cluster", "up", "codes"),
    [
        (None, None, "0.05", {"tolerance-of-object"}),
        ("1.34", None, "0.05", {"tolerance-ignored", "kubernetes-version", "cap-sticks"}),
        ("1.35", None, "0.05", {"tolerance-of-object", "kubernetes-version"}),
        ("1.35", None, "0.1", {"tolerance-of-object", "kubernetes-version", "cap-sticks"}),
        (None, "1.37", "0.05", {"tolerance-of-object"}),
        ("1.37", "1.34", "0.05", {"tolerance-ignored", "kubernetes-differs", "cap-sticks"}),
    ],
)
def test_the_version_decides_on_the_tolerance_of_an_object(
    named: str | None, cluster: str | None, up: str, codes: set[str]
) -> None:
    """That of the cluster if one was asked, else the annotation's: 12 / 11 is 9 % too many."""
    annotations = {} if named is None else {KUBERNETES_ANNOTATION: named}
    reviewed = review_policy(
        scaled_object(annotations, advanced=behavior(scaleUp={"tolerance": up})),
        where="file",
        context=PolicyContext(partitions=12),
        known_objects=KnownObjects(kubernetes=cluster),
    )
    about = {"tolerance-ignored", "tolerance-of-object", "cap-sticks", "kubernetes-version"}

    assert {*reviewed.codes} & {*about, "kubernetes-differs"} == codes


@pytest.mark.parametrize(
    ("version", "metric", "field"),
    [
        ("1.36", "External", "spec.minReplicas"),
        ("1.37", "External", None),
        ("1.37", "Resource", "spec.metrics"),
    ],
)
def test_an_hpa_goes_to_zero_from_1_37_on(version: str, metric: str, field: str | None) -> None:
    """It needs a metric that is there without a pod."""
    sources = {"External": {"external": SOURCE}, "Resource": {"resource": RESOURCE}}
    asked = hpa(minReplicas=0, metrics=[{"type": metric, **sources[metric]}])
    around = KnownObjects(kubernetes=version)
    reviewed = review_policy(asked, where="file", known_objects=around)

    refused = [one.field for one in reviewed.findings if one.level == "refused"]
    assert refused == ([] if field is None else [field])
    assert ("hpa-to-zero" in reviewed.codes) is (field is None)


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


@pytest.mark.parametrize(
    ("address", "level", "instead"),
    [
        ("http://lag-scaler.default.svc", "broken", "lag-scaler.default.svc:6000"),
        ("http://lag-scaler:7000/", "broken", "lag-scaler:7000"),
        ("lag-scaler", "warning", "lag-scaler:6000"),
    ],
)
def test_the_suggested_address_is_not_warned_of_in_its_turn(
    address: str, level: str, instead: str
) -> None:
    """It has a port, so a second check is silent."""

    def addresses(value: str) -> list[tuple[str, str]]:
        trigger = {"type": "external", "metadata": {"scalerAddress": value}}
        findings = review(triggers=[trigger]).findings
        return [(one.level, one.instead) for one in findings if one.code == "scaler-address"]

    assert addresses(address) == [(level, instead)]
    assert not addresses(instead)


@pytest.mark.parametrize(
    ("servers", "level", "said", "instead"),
    [
        ("kafka", "broken", "missing port", "kafka:9092"),
        ("PLAINTEXT://kafka:9093", "broken", "too many colons", "kafka:9093"),
        ("a:9092;b:9092", "broken", "too many colons", "a:9092,b:9092"),
        ("k:port", "broken", "unknown port", "k:9092"),
        ("k:99999", "broken", "invalid port", "k:9092"),
        ("k:9092,b", "warning", "missing port", "k:9092,b:9092"),
        ("::1:9092", "broken", "too many colons", "HOST:9092"),
    ],
)
def test_servers_that_cannot_be_dialled_are_named(
    servers: str, level: str, said: str, instead: str
) -> None:
    """With the form that can be."""
    finding = found(review(triggers=[kafka(bootstrapServers=servers)]), "server-address")

    assert (finding.level, finding.instead) == (level, instead)
    assert said in finding.happens


@pytest.mark.parametrize(
    ("code", "trigger"),
    [
        *[
            ("topic-impossible", kafka(topic=topic))
            for topic in ("orders,payments", "orders-.*", "a b", "a*", "x" * 250, "..")
        ],
        *[
            ("many-series", prometheus(query))
            for query in (
                'kafka_consumergroup_lag{consumergroup="g"}',
                "sum by (topic) (a)",
                "sum(a) by (topic)",
                "rate(a[5m])",
                "a / b",
                "topk(3, a)",
            )
        ],
    ],
)
def test_a_source_that_keda_cannot_read_as_it_is_meant(code: str, trigger: dict[str, Any]) -> None:
    """KEDA reads one topic for each trigger, and takes one series."""
    assert code in review(triggers=[trigger]).codes


def test_a_refusal_hides_no_other_problem() -> None:
    """A misspelt parameter is the first warning, also beside a refused field; cron is read, too."""
    misspelt, wrong = kafka(lagTreshold="9"), cron(3)
    wrong["metadata"]["start"] = "55 8 * *"
    field = "spec.triggers[0].metadata.lagTreshold"

    assert [one.field for one in review(maxReplicas=50, triggers=[misspelt, wrong]).findings] == [
        "spec.maxReplicas",
        "spec.triggers[1].metadata.start",
        field,
    ]
    assert review(triggers=[misspelt], cooldownPeriod=60).findings[0].field == field


def test_the_right_name_is_told() -> None:
    """Of fields of an HPA, and of a mechanism that has another name in Kafka."""
    fields = review(minReplicas=3, maxReplicas=50).findings

    assert {item.instead for item in fields} == {"minReplicaCount", "maxReplicaCount"}
    assert review(triggers=[kafka(sasl="plain")]).findings[0].instead == "sasl: plaintext"


@pytest.mark.parametrize("spec", [{}, {"pollingInterval": 0}, {"triggers": [kafka(sasl="x")]}])
def test_a_login_is_never_shown(spec: dict[str, Any]) -> None:
    """A password in the metadata appears in no finding, whatever else is wrong."""
    changed = {"triggers": [kafka()], **copy.deepcopy(spec)}
    for value in ("s3cret", 53, "keyfile"):
        changed["triggers"][0]["metadata"]["password"] = value

        found = review(**changed)

        assert str(value) not in json.dumps([item.as_dict() for item in found.findings])


def test_an_object_that_the_operator_refuses_cannot_run() -> None:
    """Of the recorded rows that were stored, those never ready are found, except for five.

    The five depend on what is running: a broker or server that is not there, a target that is not.
    """
    missed = []
    for row in json.loads(gzip.decompress(CASES.read_bytes()))["rows"]:
        if not row["accepted"] or row["field_validation"] != "Strict":
            continue
        found = review_policy(row["manifest"], where=row["name"])
        ready = [item["status"] for item in row["conditions"] if item["type"] == "Ready"]
        if (ready == ["False"]) == found.can_run:
            missed.append(row["name"])

    assert missed == [
        "kafka-broker-unreachable",
        "kafka-tls-no-cert",
        "target-missing",
        "target-env-container-missing",
        "external-unreachable",
    ]


def test_an_hpa_is_reviewed_as_well() -> None:
    """A plain HPA on CPU sees no lag; one with KEDA's field names is rejected."""
    assert review_policy(hpa(), where="f").codes == ("lag-not-seen", "no-behavior")
    assert not review_policy(hpa(minReplicaCount=2), where="f").is_accepted


@pytest.mark.parametrize(
    ("manifest", "instead"),
    [
        *[(hpa(f"autoscaling/{v}"), "autoscaling/v2") for v in ("v2beta1", "v2beta2", "v99")],
        (hpa("apps/v1"), "autoscaling/v2"),
        (hpa(None), "autoscaling/v2"),
        *[({**scaled_object(), "apiVersion": v}, "keda.sh/v1alpha1") for v in ("keda.sh/v1", None)],
    ],
)
def test_a_version_that_is_not_served_is_refused(manifest: dict[str, Any], instead: str) -> None:
    """The served one is the remedy, not another object."""
    (finding,) = review_policy(manifest, where="f").findings

    assert (finding.level, finding.code, finding.instead) == ("refused", "api-version", instead)


def test_v1_is_v2_with_a_metric_on_cpu() -> None:
    """With a percentage or without one; a field of v2 alone is unknown there."""
    for spec in ({"targetCPUUtilizationPercentage": 70}, {}):
        assert review_policy(hpa("autoscaling/v1", **spec), where="f").is_accepted
    (finding,) = review_policy(hpa("autoscaling/v1", metrics=[]), where="f").findings
    assert "autoscaling/v2" in finding.instead


RESOURCE = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"scaleTargetRef": {"kind": "Deployment", "name": "w"}}, "spec.scaleTargetRef.apiVersion"),
        ({"scaleTargetRef": {**TARGET, "name": ""}}, "spec.scaleTargetRef.name"),
        ({"minReplicas": -1}, "spec.minReplicas"),
        ({"minReplicas": 4}, "spec.maxReplicas"),
        ({"maxReplicas": 3_000_000_000}, "spec.maxReplicas"),
        ({"behavior": {"scaleUp": {"policies": []}}}, "spec.behavior.scaleUp.policies"),
        (
            {"behavior": {"scaleUp": {"stabilizationWindowSeconds": 3601}}},
            "spec.behavior.scaleUp.stabilizationWindowSeconds",
        ),
        ({"metrics": [{"type": "Pods"}]}, "spec.metrics[0].pods"),
        ({"metrics": [{"type": "Cpu", "resource": RESOURCE}]}, "spec.metrics[0].type"),
        (
            {"metrics": [{"type": "Resource", "resource": {**RESOURCE, "name": ""}}]},
            "spec.metrics[0].resource.name",
        ),
        (
            {
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {
                            "name": "cpu",
                            "target": {**RESOURCE["target"], "averageValue": "1"},  # type: ignore[dict-item]
                        },
                    }
                ]
            },
            "spec.metrics[0].resource.target.averageValue",
        ),
        ({"metrics": "cpu"}, "spec.metrics"),
        ({"metrics": ["cpu"]}, "spec.metrics[0]"),
        ({"metrics": [{"type": "Resource", "resource": "cpu"}]}, "spec.metrics[0].resource"),
        (
            {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": 80}}]},
            "spec.metrics[0].resource.target",
        ),
        ({"scaleTargetRef": "consumer"}, "spec.scaleTargetRef"),
        ({"behavior": {"scaleUp": {"policies": 4}}}, "spec.behavior.scaleUp.policies"),
    ],
)
def test_kubernetes_own_rules_refuse_an_hpa(spec: dict[str, Any], field: str) -> None:
    """Each is named by its field, also where a field is of another type."""
    findings = review_policy(hpa(**spec), where="f").findings

    assert {(item.level, item.field) for item in findings} == {("refused", field)}


@pytest.mark.parametrize(("metadata", "field"), [({}, "metadata.name"), ("h", "metadata")])
def test_an_hpa_without_a_name_is_refused(metadata: Any, field: str) -> None:
    """As a ScaledObject is."""
    (finding,) = review_policy({**hpa(), "metadata": metadata}, where="f").findings
    assert finding.field == field


SOURCE = {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": 0.5}}
NAMED = {**SOURCE, "describedObject": {"kind": "Service", "name": "s"}}


@pytest.mark.parametrize(
    ("metrics", "code"),
    [
        ([{"type": "Pods", "pods": SOURCE}], "not-rehearsed-here"),
        ([{"type": "Object", "object": NAMED}], "not-rehearsed-here"),
        ([{"type": "Resource", "resource": {**RESOURCE, "name": "cpus"}}], "resource-unknown"),
        ([{"type": "External", "external": SOURCE}], None),
        (None, "lag-not-seen"),
    ],
)
def test_what_of_an_hpa_is_stored(metrics: Any, code: str | None) -> None:
    """A quantity may be a number, a null counts as absent, and a resource have any name."""
    rules = {"scaleUp": {"tolerance": 0.05}}
    reviewed = review_policy(hpa(metrics=metrics, minReplicas=None, behavior=rules), where="f")
    told = {"not-rehearsed-here", "resource-unknown", "lag-not-seen"} & {*reviewed.codes}

    assert reviewed.is_accepted
    assert told == ({code} if code else set())


@pytest.mark.parametrize(
    "spec",
    [
        {"maxReplicaCount": 12.0},
        {"minReplicaCount": 3.0, "idleReplicaCount": 0.0},
        {"pollingInterval": 3e1, "cooldownPeriod": 60.0, "minReplicaCount": 0.0},
        {"fallback": {"failureThreshold": 0.0, "replicas": 6.0}},
        {"advanced": {"horizontalPodAutoscalerConfig": {"behavior": {"scaleUp": {
            "stabilizationWindowSeconds": 0.0,
            "policies": [{"type": "Pods", "value": 4.0, "periodSeconds": 15.0}],
        }}}}},
    ],
)  # fmt: skip
def test_a_whole_number_may_have_a_point(spec: dict[str, Any]) -> None:
    """JSON has one kind of number."""
    assert review(**spec).can_run
    assert review_policy(hpa(maxReplicas=10.0, minReplicas=1.0), where="f").can_run


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"labels": {"country": False}}, "metadata.labels.country"),
        ({"annotations": {"tier": True}}, "metadata.annotations.tier"),
    ],
)
def test_a_boolean_is_no_text(metadata: dict[str, Any], field: str) -> None:
    """The quoted form is the remedy, also in an HPA and in a trigger's metadata."""
    for manifest in (hpa(), scaled_object()):
        named = {**manifest, "metadata": {**manifest["metadata"], **metadata}}
        (finding,) = review_policy(named, where="f").findings
        assert finding.field == field
        assert "in quotes" in finding.instead
    trigger = kafka()
    trigger["metadata"]["tls"] = False
    (finding,) = review(triggers=[trigger]).findings
    assert (finding.field, finding.level) == ("spec.triggers[0].metadata.tls", "refused")
    assert '"false" in quotes' in finding.instead


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


@pytest.mark.parametrize(
    ("kind", "version", "level"),
    [
        ("external-push", "1.37", "note"),
        ("external-push", "1.36", "warning"),  # the HPA is written, not synced
        ("external", "1.37", "warning"),  # KEDA does not read the stream
    ],
)
def test_sync_on_step_needs_a_push_trigger_and_kubernetes_1_37(
    kind: str, version: str, level: str
) -> None:
    """What is missing for it is a warning."""
    trigger = {**lag_scaler(syncOnStep="true"), "type": kind}
    reviewed = review({KUBERNETES_ANNOTATION: version}, triggers=[trigger])

    assert found(reviewed, "sync-on-step").level == level


@pytest.mark.parametrize("name", list_policies())
def test_the_warnings_of_each_policy(name: str) -> None:
    """It is accepted, KEDA can run it, and only the listed warnings are raised."""
    partitions = 24 if name in OF_24_PARTITIONS else 12

    found = review_of_policies(name, PolicyContext(partitions=partitions))

    assert found.is_accepted
    assert found.can_run
    warnings = {item.code for item in found.findings if item.level == "warning"}
    assert (warnings, found.climb) == EXPECTED[name]
