"""Which alert rules a policy gets, and what they ask."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.dashboard_file import committed_rules
from tests.fakes.exported_metrics import OF_KEDA, exported_alias_names, exported_names

from lagbench.alerts import AlertRule, rules_of_policy
from lagbench.catalog.catalog import policy_file
from lagbench.cli import main
from lagbench.errors import ExitCode
from lagbench.project import PROJECT_ROOT

MONITORING = PROJECT_ROOT / "k8s" / "base" / "monitoring"

POLICIES = sorted((PROJECT_ROOT / "k8s" / "policies").glob("*.yaml"))

STUCK, IDLE, CEILING = (
    "ConsumersStuckBelowPartitions",
    "ConsumersIdleBeyondPartitions",
    "LagNotFallingAtCeiling",
)

ON_LAG = {STUCK, IDLE, CEILING}

UNREAD = "NoMetricAndNoFallback"

ON_OBJECT = {UNREAD, "ScaledObjectNotReady", "ScalerErrors"}

_METRIC = re.compile(r"\b((?:kafka|kube|keda|lagbench)_[a-z_]+)\b(?![\"=])")

HPA = yaml.safe_load("""
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: own, namespace: n}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: c}
  maxReplicas: 3
  metrics:
  - type: Resource
    resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}
""")

CPU = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "70"}}

FORMULA = {"scalingModifiers": {"formula": "lag / 10", "target": "1000"}}


def manifest(
    name: str,
    *,
    annotations: dict[str, str] | None = None,
    trigger: dict[str, Any] | None = None,
    metadata: dict[str, str] | None = None,
    **spec: object,
) -> dict[str, Any]:
    """Return a policy of the catalog, changed in its spec, its annotations and its trigger."""
    found: dict[str, Any] = yaml.safe_load(policy_file(name).read_text())
    found["spec"] |= spec
    found["metadata"]["annotations"] = annotations or {}
    found["spec"]["triggers"][0] |= trigger or {}
    found["spec"]["triggers"][0]["metadata"] |= metadata or {}
    return found


def rules(given: dict[str, Any]) -> dict[str, AlertRule]:
    """Return the rules of a policy by name; of several triggers the last one's."""
    return {rule.name: rule for rule in rules_of_policy(given, where="test")}


def standard(sync: int | None = None, tolerance: str | None = None, **more: Any) -> dict[str, Any]:
    """Return lag-standard, changed, with flags of the HPA in its annotations."""
    flags = {"lagbench.io/hpa-sync-seconds": sync, "lagbench.io/hpa-tolerance": tolerance}
    told = {name: str(value) for name, value in flags.items() if value is not None}
    return manifest("lag-standard", annotations=told, **more)


ALL = ON_LAG | ON_OBJECT

SELECTED = 'kafka_consumergroup_lag_sum{consumergroup="enrich",topic="events"}'


@pytest.mark.parametrize(
    ("given", "names", "texts"),
    [
        (standard(), ALL, [SELECTED, "> 1.1 * 10000 * max(", "< 24\n"]),
        (manifest("prometheus-lag"), ALL, [SELECTED, "500"]),
        # Something else than lag, whose unit is unknown.
        (manifest("prometheus-lag", metadata={"query": "up"}), ON_OBJECT, []),
        # A threshold of all replicas together is not multiplied.
        (standard(trigger={"metricType": "Value"}), ALL, ["> 1.1 * 10000\n"]),
        (standard(tolerance="0.2"), ALL, ["> 1.2 * 10000 * max("]),
        (standard(tolerance="0"), ALL, ["> 10000 * max("]),
        # Neither seconds nor a formula's result are a threshold in records.
        (
            manifest("persistent-lag-aggressive", metadata={"lagMetric": "seconds"}),
            ALL - {STUCK},
            ["\nand sum("],
        ),
        (standard(trigger={"name": "lag"}, advanced=FORMULA), ALL - {STUCK}, ["> 0\n"]),
        (standard(triggers=[CPU]), ON_OBJECT, []),
        (HPA, {UNREAD}, []),
    ],
)
def test_a_policy_gets_the_rules_that_it_has_numbers_for(
    given: dict[str, Any], names: set[str], texts: list[str]
) -> None:
    """The texts stand in the rule on stuck consumers, else in that at the ceiling."""
    found = rules(given)

    assert set(found) == names
    for text in texts:
        assert text in found.get(STUCK, found[CEILING]).expr


def test_names_are_those_of_the_policy() -> None:
    """Group, topic and object stand in the labels."""
    assert rules(manifest("lag-standard"))[STUCK].labels == {
        "namespace": "lagbench",
        "scaledobject": "consumer",
        "topic": "events",
        "consumergroup": "enrich",
    }


def test_a_group_s_name_is_no_template_of_prometheus() -> None:
    """Prometheus runs the templates in labels; promtool has shown this text as the name again."""
    name = 'a {{{ query "up" | first | value }}} 😀'
    rule = rules(manifest("lag-quick", metadata={"consumerGroup": name}))[CEILING]

    label = rule.as_dict()["labels"]["consumergroup"]

    assert label == 'a {{"{{"}}{ query "up" | first | value }}} 😀'
    assert json.dumps(name, ensure_ascii=False) in rule.expr


ONE_POD = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}]}

SLOW, SLOWER = (
    {"horizontalPodAutoscalerConfig": {"behavior": {"scaleUp": rule}}}
    for rule in (ONE_POD, ONE_POD | {"stabilizationWindowSeconds": 90})
)

FALLBACK = {"fallback": {"failureThreshold": 7, "replicas": 6}, "pollingInterval": 10}


@pytest.mark.parametrize(
    ("given", "name", "seconds", "text"),
    [
        # Stabilisation window and longest period of scaleUp, and two syncs.
        (standard(advanced=SLOWER), STUCK, 240, " 240 s"),
        (standard(advanced=SLOW), STUCK, 150, " 150 s"),
        (standard(sync=5, advanced=SLOW), STUCK, 130, " 130 s"),
        # A fallback engages after its failures, one per poll; without one a minute is enough.
        (standard(pollingInterval=30), UNREAD, 60, "has no fallback"),
        (standard(**FALLBACK), UNREAD, 8 * 15 + 2 * 15, "to 6 replicas after 7"),
        (standard(sync=5, **FALLBACK), UNREAD, 8 * 10 + 2 * 5, "to 6 replicas after 7"),
    ],
)
def test_a_policy_is_given_the_time_that_it_needs(
    given: dict[str, Any], name: str, seconds: int, text: str
) -> None:
    """The annotation of the sync counts, too."""
    rule = rules(given)[name]

    assert rule.for_seconds == seconds
    assert text in rule.description


@pytest.mark.parametrize("thresholds", [("500", "2000"), ("2000", "500")])
def test_the_lowest_of_several_thresholds_on_one_lag_decides(thresholds: tuple[str, str]) -> None:
    """The HPA takes the highest proposal, whichever trigger comes first in the file."""
    found = manifest("lag-default")
    (trigger,) = found["spec"]["triggers"]
    found["spec"]["triggers"] = [
        {"name": f"t{n}", **trigger, "metadata": {**trigger["metadata"], "lagThreshold": limit}}
        for n, limit in enumerate(thresholds)
    ]

    (stuck,) = [rule for rule in rules_of_policy(found, where="test") if rule.name == STUCK]
    assert "500" in stuck.expr
    assert "2000" not in stuck.expr


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


def test_the_rules_of_the_bench_ask_what_the_bench_exports_for_each_group() -> None:
    """Partitions of both groups are not counted together, nor one's lag held to other replicas.

    A target of the HPA alone does not say whether it counts records, so no rule uses it.
    """
    found = {rule.name: rule.expr for rule in committed_rules()}
    names = {name for expr in found.values() for name in _METRIC.findall(expr)}

    assert found.keys() == ON_LAG | ON_OBJECT
    assert names
    assert names <= (exported_names() | OF_KEDA) - {"lagbench_hpa_metric_target"}
    for name, expr in found.items():
        of_run = name != "ScalerErrors"
        by = "run_id, run_group" if of_run else "namespace, scaledObject"
        assert set(re.findall(r"\bby \(([^)]*)\)", expr)) == {by}
    for name in (STUCK, CEILING):
        assert "> min by (run_id, run_group) (lagbench_scales_above_records)\n" in found[name]


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_the_rules_of_a_policy_ask_names_that_the_bench_can_tell_too(path: Path) -> None:
    """So they can be tried here before they watch anything: the aliases have every name."""
    found = rules_of_policy(yaml.safe_load(path.read_text()), where=path.name)

    names = {name for rule in found for name in _METRIC.findall(rule.expr)}
    assert names
    assert names <= exported_alias_names() | OF_KEDA


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
    """What is no policy is passed over, alone it is refused; for the operator each is an object."""
    first, second = manifest("lag-standard"), manifest("lag-quick")
    second["metadata"]["name"] = "second"
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    path, none = tmp_path / "both.yaml", tmp_path / "none.yaml"
    path.write_text(yaml.safe_dump_all([first, other, second]))
    none.write_text(yaml.safe_dump(other))

    code, text = printed([str(path)], monkeypatch, capsys)
    assert code == ExitCode.PASS
    groups = [group["name"] for group in yaml.safe_load(text)["groups"]]
    assert groups == ["lagbench/consumer", "lagbench/second"]

    code, text = printed([str(path), "--operator"], monkeypatch, capsys)
    assert code == ExitCode.PASS
    objects = [(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(text)]
    assert objects == [("PrometheusRule", "consumer-alerts"), ("PrometheusRule", "second-alerts")]

    code, text = printed([str(none)], monkeypatch, capsys)
    assert code == ExitCode.WRONG_INPUT
    assert "ConfigMap" in text
