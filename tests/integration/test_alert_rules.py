"""Every alert rule in Prometheus' own rule engine: when it fires, and when it must not."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.dashboard_file import committed_rules
from tests.integration.prometheus_process import debian_program

from lagbench.alerts import (
    AlertRule,
    RuleGroup,
    as_yaml,
    rule_file,
    rules_of_policy,
)
from lagbench.catalog.catalog import policy_file

pytestmark = pytest.mark.slow

MINUTES = 15
SCRAPES = MINUTES * 4
PARTITIONS = 12
THRESHOLD, CEILING = 1000, 8
OF_HPA = 'namespace="lagbench",horizontalpodautoscaler="keda-hpa-consumer"'
OF_LAG = 'consumergroup="enrich",topic="events"'
OF_OBJECT = 'namespace="lagbench",scaledobject="consumer"'

State = Mapping[str, str]
"""What continues, in promtool's notation of series (``2x60``: 2, sixty times more)."""
OF_STATE = {"run_id": "r1", "run_group": "second"}
CALM: State = {
    "lag": f"500x{SCRAPES}",
    "desired": f"4x{SCRAPES}",
    "existing": f"4x{SCRAPES}",
    "inactive": f"0x{SCRAPES}",
    "ready": f"1x{SCRAPES}",
    "errors": f"_x{SCRAPES}",
}


@dataclass(frozen=True)
class Case:
    """A state in which exactly these alerts fire at the end."""

    what: str
    changes: State
    fires: frozenset[str] = frozenset()


def case(what: str, *fires: str, **changes: str) -> Case:
    """Return a case that differs from a calm bench in ``changes``."""
    return Case(what, changes, frozenset(fires))


CASES = [
    case("all is well"),
    case("lag stands and nothing is done", "ConsumersStuckBelowPartitions", lag=f"9000x{SCRAPES}"),
    case("lag within the HPA's tolerance", lag=f"4390x{SCRAPES}"),
    case(
        "the policy climbs, slowly",
        lag=f"20000x{SCRAPES}",
        desired=f"1x{SCRAPES - 14} 2x3 3x3 4x3 5x1",
    ),
    case("a spike that the next sync sees", lag=f"500x{SCRAPES - 3} 90000x2"),
    case(
        "lag rises at the ceiling",
        "LagNotFallingAtCeiling",
        lag=f"9000+100x{SCRAPES}",
        desired=f"{CEILING}x{SCRAPES}",
        existing=f"{CEILING}x{SCRAPES}",
    ),
    case(
        "lag falls at the ceiling",
        lag=f"90000-100x{SCRAPES}",
        desired=f"{CEILING}x{SCRAPES}",
        existing=f"{CEILING}x{SCRAPES}",
    ),
    case(
        "a little lag at the ceiling",
        desired=f"{CEILING}x{SCRAPES}",
        existing=f"{CEILING}x{SCRAPES}",
    ),
    case("more pods than partitions", "ConsumersIdleBeyondPartitions", existing=f"13x{SCRAPES}"),
    case("as many pods as partitions", existing=f"{PARTITIONS}x{SCRAPES}"),
    case("the HPA is blind", "NoMetricAndNoFallback", inactive=f"1x{SCRAPES}"),
    case(
        "scaled to zero, which the HPA calls inactive",
        inactive=f"1x{SCRAPES}",
        desired=f"0x{SCRAPES}",
        existing=f"0x{SCRAPES}",
        lag=f"0x{SCRAPES}",
    ),
    case("the object is not ready", "ScaledObjectNotReady", ready=f"0x{SCRAPES}"),
    case("ready is not known", ready=f"_x{SCRAPES}"),
    case("the first error of all", "ScalerErrors", errors=f"_x{SCRAPES - 3} 1x2"),
    case("errors go on", "ScalerErrors", errors=f"0+1x{SCRAPES}"),
    case("errors of long ago", errors=f"7x{SCRAPES}"),
]


def series_in_production(state: State) -> dict[str, str]:
    """Return what kafka_exporter, kube-state-metrics and KEDA tell of a state."""
    hpa = "kube_horizontalpodautoscaler_status"
    condition = f'{hpa}_condition{{{OF_HPA},condition="ScalingActive"'
    object_condition = f"kube_customresource_scaledobject_status_condition{{{OF_OBJECT}"
    errors, of_object = "keda_scaler_detail_errors_total", 'scaledObject="consumer",scaler="s"'
    known = {
        f"kafka_consumergroup_lag_sum{{{OF_LAG}}}": state["lag"],
        f"{hpa}_desired_replicas{{{OF_HPA}}}": state["desired"],
        f"{hpa}_current_replicas{{{OF_HPA}}}": state["existing"],
        f'{condition},status="false"}}': state["inactive"],
        f'{object_condition},condition="Ready",status="False"}}': _inverse(state["ready"]),
        # A Prometheus operator's scrape: KEDA's own namespace label is renamed.
        f'{errors}{{namespace="keda",exported_namespace="lagbench",{of_object}}}': state["errors"],
        f'{errors}{{namespace="lagbench",scaledObject="other"}}': f"0+1x{SCRAPES}",
    }
    for partition in range(PARTITIONS):
        name = f'kafka_topic_partition_current_offset{{topic="events",partition="{partition}"}}'
        known[name] = f"1000x{SCRAPES}"
    return known


def series_of_the_bench(state: State) -> dict[str, str]:
    """Return what recorder and KEDA tell of a state, beside another run and group that are calm."""
    known: dict[str, str] = {}
    reports = (("r1", "first", CALM), ("r1", "second", state), ("calm", "first", CALM))
    for run, group, reported in reports:
        of_run = f'run_id="{run}",run_group="{group}"'
        of_hpa = f'{of_run},hpa="keda-hpa-consumer"'
        of_object = f'{of_run},scaled_object="consumer"'
        known |= {
            f"lagbench_lag_records{{{of_run}}}": reported["lag"],
            f"lagbench_hpa_desired_replicas{{{of_hpa}}}": reported["desired"],
            f"lagbench_hpa_max_replicas{{{of_hpa}}}": f"{CEILING}x{SCRAPES}",
            f"lagbench_scales_above_records{{{of_object}}}": _scales_above(reported["desired"]),
            f'lagbench_replicas{{{of_run},state="existing"}}': reported["existing"],
            f'lagbench_replicas{{{of_run},state="wanted"}}': reported["existing"],
            f'lagbench_hpa_condition{{{of_hpa},condition="ScalingActive"}}': _inverse(
                reported["inactive"]
            ),
            f'lagbench_scaled_object_condition{{{of_object},condition="Ready"}}': reported["ready"],
        }
        for partition in range(PARTITIONS):
            name = f'lagbench_partition_end_offset{{{of_run},partition="{partition}"}}'
            known[name] = f"1000x{SCRAPES}"
    errors = "keda_scaler_detail_errors_total"
    known[f'{errors}{{namespace="lagbench",scaledObject="consumer",scaler="s"}}'] = state["errors"]
    return known


def _scales_above(desired: str) -> str:
    """Return the lag at which each number of replicas is too low, with the HPA's tolerance."""
    each = round(1.1 * THRESHOLD)
    return re.sub(r"(\d+)x", lambda found: f"{each * max(1, int(found[1]))}x", desired)


def _inverse(values: str) -> str:
    return values.translate(str.maketrans("01", "10")) if values[0] in "01" else values


def policy() -> dict[str, Any]:
    """Return a policy with the threshold and the ceiling of these tests."""
    found: dict[str, Any] = yaml.safe_load(policy_file("lag-quick").read_text())
    found["spec"]["maxReplicaCount"] = CEILING
    found["spec"]["triggers"][0]["metadata"]["lagThreshold"] = str(THRESHOLD)
    return found


@pytest.mark.parametrize("where", ["in production", "on the bench"])
def test_a_rule_fires_in_its_state_and_in_no_other(where: str, tmp_path: Path) -> None:
    """Each rule has a state in which it fires alone, and states beside it in which none does."""
    is_bench = where == "on the bench"
    rules = committed_rules() if is_bench else rules_of_policy(policy(), where="test")
    tests = []
    for item in CASES:
        state = {**CALM, **item.changes}
        series = series_of_the_bench(state) if is_bench else series_in_production(state)
        tests.append(_promtool_test(item, series, rules, is_bench=is_bench))

    found = _promtool(tests, rules, tmp_path)

    assert found.returncode == 0, found.stdout + found.stderr
    assert {name for item in CASES for name in item.fires} == {rule.name for rule in rules}


def _promtool_test(
    item: Case, series: Mapping[str, str], rules: Sequence[AlertRule], *, is_bench: bool
) -> dict[str, Any]:
    return {
        "name": item.what,
        "interval": "15s",
        "input_series": [{"series": name, "values": reported} for name, reported in series.items()],
        "alert_rule_test": [
            {
                "eval_time": f"{MINUTES}m",
                "alertname": rule.name,
                "exp_alerts": [_expected(rule, is_bench)] if rule.name in item.fires else [],
            }
            for rule in rules
        ],
    }


def _expected(rule: AlertRule, is_bench: bool) -> dict[str, Any]:
    reported = rule.as_dict()
    of_series: dict[str, str] = {}
    if is_bench:
        of_keda = {"namespace": "lagbench", "scaledObject": "consumer"}
        of_series = of_keda if rule.name == "ScalerErrors" else OF_STATE
    return {
        "exp_labels": {**reported["labels"], **of_series},
        "exp_annotations": reported["annotations"],
    }


def _promtool(
    tests: Sequence[dict[str, Any]], rules: Sequence[AlertRule], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run ``promtool test rules``."""
    group = RuleGroup("consumer", "lagbench", rules)
    (folder / "rules.yml").write_text(as_yaml([rule_file([group])], head="under test"))
    given = {"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": list(tests)}
    (folder / "tests.yml").write_text(yaml.safe_dump(given))
    return subprocess.run(
        [debian_program("promtool"), "test", "rules", str(folder / "tests.yml")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
