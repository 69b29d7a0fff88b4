"""Which alert rules a policy gets, and what they ask."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.grafana.exported_metrics import OF_KEDA, exported_alias_names, exported_names

from lagbench.alerts import AlertRule, committed_text, rules_of_bench, rules_of_policy
from lagbench.catalog.catalog import policy_file
from lagbench.cli import main
from lagbench.errors import ExitCode
from lagbench.project import PROJECT_ROOT

MONITORING = PROJECT_ROOT / "k8s" / "base" / "monitoring"
POLICIES = sorted((PROJECT_ROOT / "k8s" / "policies").glob("*.yaml"))
ON_LAG = {
    "ConsumersIdleBeyondPartitions",
    "ConsumersStuckBelowPartitions",
    "LagNotFallingAtCeiling",
}
OF_KEDA_OBJECT = "namespace, scaledObject"
ON_OBJECT = {"NoMetricAndNoFallback", "ScaledObjectNotReady", "ScalerErrors"}
_METRIC = re.compile(r"\b((?:kafka|kube|keda|lagbench)_[a-z_]+)\b(?![\"=])")


def manifest(name: str, **spec: object) -> dict[str, Any]:
    """Return a policy of the catalog with fields of its spec replaced."""
    found: dict[str, Any] = yaml.safe_load(policy_file(name).read_text())
    found["spec"] |= spec
    return found


def rules(given: dict[str, Any]) -> dict[str, AlertRule]:
    """Return the rules of a policy by name; of several triggers the last one's."""
    return {rule.name: rule for rule in rules_of_policy(given, where="test")}


def test_a_query_for_lag_is_watched_as_lag() -> None:
    """The rules ask for the group and topic that the query of a prometheus trigger names."""
    stuck = rules(manifest("prometheus-lag"))["ConsumersStuckBelowPartitions"]

    assert 'kafka_consumergroup_lag_sum{consumergroup="enrich",topic="events"}' in stuck.expr
    assert "500" in stuck.expr


def test_a_group_s_name_is_no_template_of_prometheus() -> None:
    """Prometheus runs the templates in labels; promtool has shown this text as the name again."""
    found = manifest("lag-quick")
    name = 'a {{{ query "up" | first | value }}} 😀'
    found["spec"]["triggers"][0]["metadata"]["consumerGroup"] = name
    rule = rules(found)["LagNotFallingAtCeiling"]

    label = rule.as_dict()["labels"]["consumergroup"]

    assert label == 'a {{"{{"}}{ query "up" | first | value }}} 😀'
    assert json.dumps(name, ensure_ascii=False) in rule.expr


def test_a_query_for_something_else_is_not_watched() -> None:
    """The query's unit is unknown, so that only the rules on the object are created."""
    found = manifest("prometheus-lag")
    found["spec"]["triggers"][0]["metadata"]["query"] = "up"

    assert rules(found).keys() == ON_OBJECT


def test_the_committed_rules_are_what_the_code_writes() -> None:
    """``python -m lagbench.alerts`` was run after the last change."""
    assert (MONITORING / "alerts.yml").read_text(encoding="utf-8") == committed_text()


def test_prometheus_finds_the_rules_where_they_are_put() -> None:
    """Kustomize puts them beside the configuration, and compose mounts them there."""
    config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    of_compose = yaml.safe_load((PROJECT_ROOT / "k8s/compose/prometheus.yml").read_text())
    kustomization = yaml.safe_load((MONITORING / "kustomization.yaml").read_text())
    compose = yaml.safe_load((PROJECT_ROOT / "docker-compose.yaml").read_text())
    files = {made["name"]: made["files"] for made in kustomization["configMapGenerator"]}

    assert config["rule_files"] == of_compose["rule_files"] == ["alerts.yml"]
    assert "alerts.yml" in files["prometheus"]
    mounted = "./k8s/base/monitoring/alerts.yml:/etc/prometheus/alerts.yml:ro"
    assert mounted in compose["services"]["prometheus"]["volumes"]


def test_the_rules_of_the_bench_ask_what_the_bench_exports() -> None:
    """Ours by the programs' own rendering, KEDA's by its source."""
    names = {name for rule in rules_of_bench() for name in _METRIC.findall(rule.expr)}

    assert {rule.name for rule in rules_of_bench()} == ON_LAG | ON_OBJECT
    assert names
    assert names <= exported_names() | OF_KEDA


def test_the_rules_of_the_bench_keep_the_two_groups_of_a_run_apart() -> None:
    """Partitions of both groups are not counted together, nor one's lag held to other replicas."""
    for rule in rules_of_bench():
        by = set(re.findall(r"\bby \(([^)]*)\)", rule.expr))

        assert by == {OF_KEDA_OBJECT if rule.name == "ScalerErrors" else "run_id, run_group"}


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_the_rules_of_a_policy_ask_names_that_the_bench_can_tell_too(path: Path) -> None:
    """So they can be tried here before they watch anything: the aliases have every name."""
    found = rules_of_policy(yaml.safe_load(path.read_text()), where=path.name)

    names = {name for rule in found for name in _METRIC.findall(rule.expr)}
    assert names
    assert names <= exported_alias_names() | OF_KEDA


def test_bounds_and_names_are_those_of_the_policy() -> None:
    """Group, topic, threshold, ceiling and object stand in the rules and in their labels."""
    stuck = rules(manifest("lag-standard"))["ConsumersStuckBelowPartitions"]

    assert 'consumergroup="enrich",topic="events"' in stuck.expr
    assert "> 1.1 * 10000 * max(" in stuck.expr
    assert "< 24\n" in stuck.expr
    assert stuck.labels == {
        "namespace": "lagbench",
        "scaledobject": "consumer",
        "topic": "events",
        "consumergroup": "enrich",
    }


def test_a_policy_that_climbs_slowly_is_given_its_time() -> None:
    """Stabilisation window and longest period of scaleUp, and two syncs."""
    up = {
        "stabilizationWindowSeconds": 90,
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}],
    }
    behavior = {"horizontalPodAutoscalerConfig": {"behavior": {"scaleUp": up}}}

    slow = rules(manifest("lag-standard", advanced=behavior))["ConsumersStuckBelowPartitions"]

    assert slow.for_seconds == 240
    assert "[240s])" in slow.expr


def test_a_faster_sync_shortens_the_waits() -> None:
    """The annotation of the policy counts: two syncs of 5 s, and polls that are no shorter."""
    up = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}]}
    behavior = {"horizontalPodAutoscalerConfig": {"behavior": {"scaleUp": up}}}
    given = manifest("lag-standard", advanced=behavior, pollingInterval=10)
    given["spec"]["fallback"] = {"failureThreshold": 7, "replicas": 6}
    usual = rules(given)
    given["metadata"]["annotations"] = {"lagbench.io/hpa-sync-seconds": "5"}
    fast = rules(given)

    stuck, without_metric = "ConsumersStuckBelowPartitions", "NoMetricAndNoFallback"
    assert (usual[stuck].for_seconds, fast[stuck].for_seconds) == (150, 130)
    assert usual[without_metric].for_seconds == 8 * 15 + 2 * 15
    assert fast[without_metric].for_seconds == 8 * 10 + 2 * 5


@pytest.mark.parametrize(
    ("fallback", "seconds", "text"),
    [
        pytest.param(None, 60, "has no fallback", id="none"),
        pytest.param(
            {"failureThreshold": 3, "replicas": 6}, 150, "to 6 replicas after 3", id="one"
        ),
    ],
)
def test_a_fallback_has_the_time_that_it_needs(
    fallback: dict[str, int] | None, seconds: int, text: str
) -> None:
    """It engages after its failures, one per poll; without one a minute is enough to know."""
    given = manifest("lag-standard", pollingInterval=30)
    if fallback is not None:
        given["spec"]["fallback"] = fallback

    without_metric = rules(given)["NoMetricAndNoFallback"]

    assert without_metric.for_seconds == seconds
    assert text in without_metric.description


@pytest.mark.parametrize("thresholds", [("500", "2000"), ("2000", "500")])
def test_the_lowest_of_several_thresholds_on_one_lag_decides(thresholds: tuple[str, str]) -> None:
    """The HPA takes the highest proposal, whichever trigger comes first in the file."""
    found = manifest("lag-default")
    (trigger,) = found["spec"]["triggers"]
    found["spec"]["triggers"] = [
        {
            **trigger,
            "name": f"t{number}",
            "metadata": {**trigger["metadata"], "lagThreshold": limit},
        }
        for number, limit in enumerate(thresholds)
    ]

    made = [rule for rule in rules_of_policy(found, where="test") if "Stuck" in rule.name]

    (stuck,) = made
    assert "500" in stuck.expr
    assert "2000" not in stuck.expr


def test_a_threshold_of_all_replicas_together_is_not_multiplied() -> None:
    """With metricType Value the HPA compares the whole lag."""
    given = manifest("lag-standard")
    given["spec"]["triggers"][0]["metricType"] = "Value"

    assert "> 1.1 * 10000\n" in rules(given)["ConsumersStuckBelowPartitions"].expr


def test_the_tolerance_of_the_policy_counts() -> None:
    """The threshold of the rules has the annotation's tolerance, not that of Kubernetes."""
    given = manifest("lag-standard")
    given["metadata"]["annotations"] = {"lagbench.io/hpa-tolerance": "0.2"}
    wide = rules(given)["ConsumersStuckBelowPartitions"].expr
    given["metadata"]["annotations"] = {"lagbench.io/hpa-tolerance": "0"}
    none = rules(given)["ConsumersStuckBelowPartitions"].expr

    assert "> 1.2 * 10000 * max(" in wide
    assert "> 10000 * max(" in none


def test_the_bench_compares_lag_with_the_targets_that_count_records_only() -> None:
    """A target of the HPA alone does not say whether it counts records, so no rule uses it."""
    found = {rule.name: rule.expr for rule in rules_of_bench()}

    for name in ("ConsumersStuckBelowPartitions", "LagNotFallingAtCeiling"):
        assert "> min by (run_id, run_group) (lagbench_scales_above_records)\n" in found[name]
    assert not any("lagbench_hpa_metric_target" in expr for expr in found.values())


def test_a_trigger_on_seconds_has_no_threshold_in_records() -> None:
    """It is watched for idle consumers and for lag that does not fall."""
    given = manifest("persistent-lag-aggressive")
    given["spec"]["triggers"][0]["metadata"]["lagMetric"] = "seconds"

    found = rules(given)

    assert set(found) == (ON_LAG | ON_OBJECT) - {"ConsumersStuckBelowPartitions"}
    assert "\nand sum(" in found["LagNotFallingAtCeiling"].expr


def test_a_formula_leaves_no_threshold_in_records() -> None:
    """Its result is held against its own target, so the trigger's lagThreshold counts nothing."""
    given = manifest("lag-standard")
    given["spec"]["triggers"][0] |= {"name": "lag"}
    given["spec"]["advanced"] = {"scalingModifiers": {"formula": "lag / 10", "target": "1000"}}

    found = rules(given)

    assert set(found) == (ON_LAG | ON_OBJECT) - {"ConsumersStuckBelowPartitions"}
    assert "10000" not in found["LagNotFallingAtCeiling"].expr


def test_a_policy_without_lag_is_watched_for_its_metric_only() -> None:
    """CPU alone says nothing of partitions; an HPA of one's own has no ScaledObject either."""
    cpu = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "70"}}
    resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    hpa = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "own", "namespace": "n"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "c"},
            "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": resource}],
        },
    }

    assert set(rules(manifest("lag-standard", triggers=[cpu]))) == ON_OBJECT
    assert set(rules(hpa)) == {"NoMetricAndNoFallback"}


def printed(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """Run ``lagbench policy alerts`` and return its exit code and what it printed."""
    monkeypatch.setattr(sys, "argv", ["lagbench", "policy", "alerts", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out + shown.err


def test_several_policies_in_a_file_are_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what is no policy is passed over; for the operator each is an object."""
    first, second = manifest("lag-standard"), manifest("lag-quick")
    second["metadata"]["name"] = "second"
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    path = tmp_path / "both.yaml"
    path.write_text(yaml.safe_dump_all([first, other, second]))

    code, text = printed([str(path)], monkeypatch, capsys)
    assert code == ExitCode.PASS
    groups = [group["name"] for group in yaml.safe_load(text)["groups"]]
    assert groups == ["lagbench/consumer", "lagbench/second"]

    code, text = printed([str(path), "--operator"], monkeypatch, capsys)
    assert code == ExitCode.PASS
    objects = list(yaml.safe_load_all(text))
    assert [(found["kind"], found["metadata"]["name"]) for found in objects] == [
        ("PrometheusRule", "consumer-alerts"),
        ("PrometheusRule", "second-alerts"),
    ]


def test_a_file_without_a_policy_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the kind that it has and those that are allowed."""
    path = tmp_path / "other.yaml"
    path.write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}")

    code, text = printed([str(path)], monkeypatch, capsys)

    assert code == ExitCode.WRONG_INPUT
    assert "ConfigMap" in text
    assert "ScaledObject" in text
