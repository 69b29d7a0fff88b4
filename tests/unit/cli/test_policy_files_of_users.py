"""The files that users hand over: lists, several, standard input, exports, variables."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes import policies
from tests.fakes.edits import edited, edits

from lagbench.alerts import rules_of_documents
from lagbench.catalog.catalog import checked_cell, policy_file
from lagbench.catalog.kubernetes_files import parse_objects
from lagbench.cli import main
from lagbench.core.policy.policy import check_policy
from lagbench.core.policy.review.policy_file import review_documents
from lagbench.core.policy.review.subject import PolicyContext
from lagbench.errors import ExitCode, WrongInput

QUICK: dict[str, Any] = yaml.safe_load(policy_file("lag-quick").read_text())
CONTAINER = {
    "name": "c",
    "env": [{"name": "GROUP", "value": "orders"}, {"name": "BROKERS", "value": "k:9092"}],
}
WORKLOAD = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "consumer", "namespace": "lagbench"},
    "spec": {"template": {"spec": {"containers": [CONTAINER]}}},
}


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run ``lagbench policy`` and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["lagbench", "policy", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def from_variables() -> dict[str, Any]:
    """Return lag-quick with servers and group in variables."""
    policy = copy.deepcopy(QUICK)
    metadata = policy["spec"]["triggers"][0]["metadata"]
    for name, variable in (("bootstrapServers", "BROKERS"), ("consumerGroup", "GROUP")):
        del metadata[name]
        metadata[f"{name}FromEnv"] = variable
    return policy


@pytest.mark.parametrize("name", ["list.yaml", "list.YAML", "list.json", "list"])
def test_a_file_of_any_name_is_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without ./ before it; JSON is YAML, and a List is its items."""
    monkeypatch.chdir(tmp_path)
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [QUICK, WORKLOAD]})
    (tmp_path / name).write_text(text)

    assert run(monkeypatch, "check", name) == ExitCode.PASS
    assert "Deployment consumer" in capsys.readouterr().out


def test_several_files_and_standard_input_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Deployment of one file has the variables of the policy in the other."""
    (tmp_path / "w.yaml").write_text(yaml.safe_dump(WORKLOAD))
    monkeypatch.setattr(sys, "stdin", io.StringIO(yaml.safe_dump(from_variables())))

    assert run(monkeypatch, "alerts", "-", str(tmp_path / "w.yaml")) == ExitCode.PASS
    assert 'consumergroup="orders"' in capsys.readouterr().out


@pytest.mark.parametrize("documents", [[from_variables()], [from_variables(), WORKLOAD]])
def test_a_run_fills_in_what_variables_give(
    documents: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan needs no Deployment; the run folder's policy is the one of the file."""
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    assert run(monkeypatch, "check", str(path)) == ExitCode.PASS

    cell = checked_cell("quick_spike", policy=str(path))
    assert cell.policy.limits.lag_threshold_records is not None
    assert yaml.safe_load(cell.policy_text) == cell.policy.manifest
    assert rules_of_documents(documents, where="f")


def test_a_policy_is_kept_as_kubectl_reads_it(tmp_path: Path) -> None:
    """The readers of a run folder know no YAML 1.1."""
    path = tmp_path / "p.yaml"
    path.write_text(policy_file("lag-quick").read_text().replace("  triggers:", "  triggers: # y"))
    assert checked_cell("quick_spike", policy=str(path)).policy_text == path.read_text()


@pytest.mark.parametrize(
    ("field", "value", "is_planned"),
    [("partitionLimitation", "11-0", True), ("topic", "orders,payments", False)],
)
def test_a_source_that_never_answers_is_one_message(
    field: str, value: str, tmp_path: Path, *, is_planned: bool
) -> None:
    """A plan rejects it before anything is predicted; alerts have no series to watch."""
    policy = copy.deepcopy(QUICK)
    policy["spec"]["triggers"][0]["metadata"][field] = value
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump(policy))

    def use() -> object:
        if is_planned:
            return checked_cell("quick_spike", policy=str(path))
        return rules_of_documents([policy], where="f")

    with pytest.raises(WrongInput) as caught:
        use()
    assert caught.value.field == f"spec.triggers[0].metadata.{field}"


def test_alerts_count_the_kept_partitions() -> None:
    """In lag and in partitions."""
    policy = copy.deepcopy(QUICK)
    policy["spec"]["triggers"][0]["metadata"]["partitionLimitation"] = "0-2"
    (group,) = rules_of_documents([policy], where="f")

    stuck = next(rule for rule in group.rules if rule.name == "ConsumersStuckBelowPartitions")
    assert stuck.expr.count('partition=~"0|1|2"') == 2


@pytest.mark.parametrize("options", [[], ["--namespace", "shop"]])
def test_a_policy_without_a_namespace_says_which_is_assumed(
    options: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Or goes to the one that is named."""
    metadata = {"name": "so"}
    (tmp_path / "p.yaml").write_text(yaml.safe_dump({**QUICK, "metadata": metadata}))

    assert run(monkeypatch, "alerts", str(tmp_path / "p.yaml"), *options) == ExitCode.PASS
    shown = capsys.readouterr().out
    assert f'namespace="{options[-1] if options else "default"}"' in shown
    assert ("names no namespace" in shown) is not options


CPU = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
HPA = {
    **policies.hpa(
        minReplicas=1,
        behavior={"scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}},
        metrics=[{"type": "Resource", "resource": CPU}],
    ),
    "metadata": {"name": "h", "labels": {"a": "b"}, "annotations": {"c": "d"}},
}
FILES = [
    [{**QUICK, "metadata": {"name": "so", "annotations": {"a": "b"}}}],
    [from_variables(), WORKLOAD],
    [HPA, WORKLOAD],
    *(
        [yaml.safe_load(policy_file(name).read_text())]
        for name in ("cron-prewarm-plus-lag", "prometheus-lag", "persistent-lag", "production")
    ),
]


@settings(
    max_examples=1000,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(file=st.sampled_from(FILES), drawn=edits())
def test_no_file_ends_in_a_traceback(file: list[Any], drawn: list[Any]) -> None:
    """Check, alerts and plan answer, or reject with one message, whatever a file holds."""
    objects = edited(file, drawn)
    context = PolicyContext(partitions=12, pod_rate=500, slo_seconds=30, shutdown_seconds=20)
    for act in (
        lambda: review_documents(objects, where="f", context=context),
        lambda: rules_of_documents(objects, where="f"),
        lambda: [check_policy(item, where="f") for item in objects if isinstance(item, dict)],
    ):
        with contextlib.suppress(WrongInput):
            act()


@given(st.text(alphabet="aon: -[]{}\"'\n\t#&*!%|>~0.e1", max_size=60))
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
def test_no_text_ends_in_a_traceback(text: str) -> None:
    """The reader answers, or rejects with one message."""
    with contextlib.suppress(WrongInput):
        parse_objects(text, where="f")
