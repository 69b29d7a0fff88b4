"""``lagbench policy check``: exit codes, JSON, several documents, and a text that fits."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lagbench.catalog.catalog import policy_file
from lagbench.cli import main
from lagbench.cli.policy_command import CANNOT_RUN
from lagbench.core.policy.review.cluster_facts import ClusterFacts
from lagbench.core.scenario.run_names import NAMESPACE
from lagbench.errors import ExitCode
from lagbench.orchestrator import observed_target


def exit_code(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run ``lagbench policy check`` and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["lagbench", "policy", "check", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def changed(tmp_path: Path, **spec: object) -> str:
    """Return a copy of lag-quick with fields of its spec replaced."""
    manifest = yaml.safe_load(policy_file("lag-quick").read_text())
    manifest["spec"] |= spec
    path = tmp_path / "changed.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return str(path)


def test_an_accepted_policy_may_have_warnings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0; the way up and the warning's code are shown."""
    code = exit_code(["lag-quick", "--scenario", "quick_spike"], monkeypatch)

    shown = capsys.readouterr().out
    assert code == ExitCode.PASS
    assert "2 → 6 → 12" in shown
    assert "down-window-short" in shown


def test_a_refused_policy_has_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The unknown field and the right name are given."""
    code = exit_code([changed(tmp_path, minReplicas=3)], monkeypatch)

    shown = capsys.readouterr().out
    assert code == ExitCode.WRONG_INPUT
    assert "spec.minReplicas = 3" in shown
    assert "instead: minReplicaCount" in shown


@pytest.mark.parametrize(
    ("container", "place"),
    [({"name": "c", "env": {"A": "x"}}, "containers[0].env"), ("c", "containers[0]")],
)
def test_a_workload_of_other_types_beside_the_policy_is_named(
    container: object,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 1 would say that the policy cannot run."""
    path = Path(changed(tmp_path))
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "consumer"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    path.write_text(f"{path.read_text()}---\n{yaml.safe_dump(workload)}")

    assert exit_code([str(path)], monkeypatch) == ExitCode.WRONG_INPUT
    assert place in "".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("threshold", ["0", "abc"])
def test_a_policy_that_cannot_run_is_exit_code_1(
    threshold: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stored, and never ready: exit code 1 stops a CI job, and --strict makes it 2."""
    metadata = {"bootstrapServers": "k:9092", "consumerGroup": "g", "lagThreshold": threshold}
    path = changed(tmp_path, triggers=[{"type": "kafka", "metadata": metadata}])

    assert exit_code([path], monkeypatch) == CANNOT_RUN
    assert exit_code([path, "--strict"], monkeypatch) == ExitCode.WRONG_INPUT


def test_windows_that_a_plan_rejects_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cron windows without a cron trigger, or not whole minutes long, are exit code 1."""
    manifest = yaml.safe_load(policy_file("lag-quick").read_text())
    manifest["metadata"]["annotations"] = {"lagbench.io/cron-windows": "60-70"}
    path = tmp_path / "windows.yaml"
    path.write_text(yaml.safe_dump(manifest))

    code = exit_code([str(path)], monkeypatch)

    assert code == CANNOT_RUN
    assert "0 cron triggers" in " ".join(capsys.readouterr().out.split())


def test_json_holds_all_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verdict, findings and suggested threshold (500/s x 30 s x 0.75) are there for a program."""
    exit_code(["production", "--rate", "500", "--slo", "30", "--json"], monkeypatch)

    (found,) = json.loads(capsys.readouterr().out)["policies"]
    assert (found["accepted"], found["can_run"]) == (True, True)
    assert found["suggested_lag_threshold"] == 11_250
    assert {item["code"] for item in found["findings"]} >= {"threshold-suggestion"}


def test_a_file_of_several_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Deployment, policy and login in one file: the policy is checked beside the others."""
    path = tmp_path / "all.yaml"
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}
    texts = [yaml.safe_dump(workload), policy_file("lag-quick").read_text(), ""]
    path.write_text("\n---\n".join(texts))

    code = exit_code([str(path)], monkeypatch)

    assert code == ExitCode.PASS
    assert "Deployment x" in capsys.readouterr().out


def test_a_file_that_is_no_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No policy, no YAML, no file: exit code 2 and one message, no traceback."""
    other, broken = tmp_path / "other.yaml", tmp_path / "broken.yaml"
    other.write_text("kind: ConfigMap\n")
    broken.write_text("a: [b\n---\n")

    for path in (other, broken, tmp_path / "none.yaml"):
        assert exit_code([str(path)], monkeypatch) == ExitCode.WRONG_INPUT
        assert "is not allowed" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_no_line_is_wider_than_the_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text folds, at most at 110 columns."""
    monkeypatch.setenv("COLUMNS", str(columns))

    exit_code(["scale-to-zero"], monkeypatch)

    assert max(map(len, capsys.readouterr().out.splitlines())) <= min(columns, 110)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the context of a kubeconfig whose API server is not there."""
    for variable in ("AIRFLOW_CONN_KUBERNETES_DEFAULT", "AIRFLOW_CONN_KAFKA_DEFAULT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    away = {"name": "away", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "away", "context": {"cluster": "away", "user": "nobody"}}
    user = {"name": "nobody", "user": {"token": "none"}}
    config = {"clusters": [away], "contexts": [context], "users": [user]}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    return "context:away"


@pytest.fixture
def facts(nowhere: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a target whose cluster has a ScaledObject on the consumers."""

    def read(_kube: Any, _discovery: Any, _documents: Any, **_: Any) -> ClusterFacts:
        theirs = yaml.safe_load(policy_file("lag-standard").read_text())
        theirs["metadata"]["name"] = "theirs"
        return ClusterFacts(
            nowhere,
            NAMESPACE,
            scaled_objects=(theirs,),
            hpas=(),
            workloads={("Deployment", "consumer"): None},
            groups=frozenset({"argoproj.io"}),
            kinds=frozenset(),
        )

    monkeypatch.setattr(observed_target, "read_cluster_facts", read)
    return nowhere


def test_a_cluster_decides(
    facts: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is stored alone is rejected beside another; each fact of the cluster is told."""
    alone = exit_code(["lag-quick"], monkeypatch)
    assert "read from" not in capsys.readouterr().out

    code = exit_code(["lag-quick", "--target", facts], monkeypatch)

    shown = capsys.readouterr().out
    assert (alone, code) == (ExitCode.PASS, ExitCode.WRONG_INPUT)
    assert "ScaledObject 'theirs'" in " ".join(shown.split())
    assert f"context:away, namespace {NAMESPACE}" in shown
    for line in (
        "  ScaledObjects: theirs",
        "  HorizontalPodAutoscalers: none",
        "  Deployment consumer: not there",
        "  API group argoproj.io: not served",
    ):
        assert line in shown.splitlines()
    assert "LimitRanges" not in shown


def test_json_names_the_facts(
    facts: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Null is what was not asked, also the cluster as a whole."""
    exit_code(["lag-quick", "--target", facts, "--json"], monkeypatch)
    cluster = json.loads(capsys.readouterr().out)["cluster"]
    exit_code(["lag-quick", "--json"], monkeypatch)

    assert json.loads(capsys.readouterr().out)["cluster"] is None
    assert (cluster["target"], cluster["scaled_objects"]) == (facts, ["theirs"])
    assert cluster["limit_ranges"] is None


def test_a_target_is_spelt_as_for_a_run(
    nowhere: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another word, another context, and settings without a cluster, are exit code 2."""
    for options in (
        ["--target", "minikube"],
        ["--target", "context:elsewhere"],
        ["--target-settings", "mine.env"],
        ["--target", "embedded", "--target-settings", "mine.env"],
        ["--target", nowhere, "--target-settings", "absent.env"],
    ):
        assert exit_code(["lag-quick", *options], monkeypatch) == ExitCode.WRONG_INPUT
        assert "--target" in capsys.readouterr().err


def test_settings_name_the_namespace(
    tmp_path: Path,
    nowhere: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A policy that goes to another one is rejected: nothing was read of that."""
    settings = tmp_path / "mine.env"
    settings.write_text("NAMESPACE=orders\nKAFKA_BOOTSTRAP_SERVERS=kafka:9092\n")

    options = ["--target", nowhere, "--target-settings", str(settings)]
    code = exit_code(["lag-quick", *options], monkeypatch)

    printed = " ".join(capsys.readouterr().err.split())
    assert code == ExitCode.WRONG_INPUT
    assert "metadata.namespace" in printed
    assert f"orders, the namespace of {nowhere}" in printed


@pytest.mark.parametrize(
    ("target", "printed"),
    [
        ("context:away", "http://127.0.0.1:1 does not answer"),
        ("kind", "make kind"),
        ("embedded", "lagbench up"),
    ],
)
def test_a_target_that_cannot_be_read_is_exit_code_3(
    target: str,
    printed: str,
    nowhere: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nobody listens, no kind cluster, no bench: one message and no answer."""
    code = exit_code(["lag-quick", "--target", target], monkeypatch)

    shown = capsys.readouterr()
    assert nowhere == "context:away"
    assert code == ExitCode.NOT_READY
    assert printed in " ".join(shown.err.split())
    assert shown.out == ""


def found_codes(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> set[str]:
    """Return the codes of the findings in a file of one policy."""
    exit_code([*arguments, "--json"], monkeypatch)
    (policy,) = json.loads(capsys.readouterr().out)["policies"]
    return {item["code"] for item in policy["findings"]}


def test_the_pauses_are_those_of_the_scenario(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bursts 100 s apart: the 20 s of lag-quick end between them, the default of 300 s do not."""
    quick = found_codes(["lag-quick", "--scenario", "short_bursts"], monkeypatch, capsys)
    slow = found_codes(["persistent-lag", "--scenario", "short_bursts"], monkeypatch, capsys)

    assert "down-window-under-pause" in quick
    assert "down-window-under-pause" not in slow


@pytest.mark.parametrize(("grace", "is_short"), [(29, True), (30, False), (None, False)])
def test_the_shutdown_time_is_that_of_the_scenario(
    grace: int | None,
    is_short: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """quick_spike takes 20 s, plus 10 s to leave; the bench's own pods get what they need."""
    documents = [yaml.safe_load(policy_file("lag-quick").read_text())]
    if grace is not None:
        pod = {"containers": [{"name": "c"}], "terminationGracePeriodSeconds": grace}
        workload = {"apiVersion": "apps/v1", "kind": "Deployment"}
        metadata = {"name": "consumer", "namespace": NAMESPACE}
        documents.append({**workload, "metadata": metadata, "spec": {"template": {"spec": pod}}})
    path = tmp_path / "file.yaml"
    path.write_text(yaml.safe_dump_all(documents))

    codes = found_codes([str(path), "--scenario", "quick_spike"], monkeypatch, capsys)

    assert ("grace-period-short" in codes) == is_short


def test_a_shutdown_time_may_be_given_without_a_scenario(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The consumers' Deployment as it is committed gives a pod 40 s."""
    assert "grace-period-short" in found_codes(
        ["lag-quick", "--shutdown-seconds", "41"], monkeypatch, capsys
    )
    assert "grace-period-short" not in found_codes(
        ["lag-quick", "--shutdown-seconds", "40"], monkeypatch, capsys
    )


@pytest.mark.parametrize(("container", "is_missing"), [("consumer", False), ("other", True)])
def test_the_consumers_are_known_as_a_stateful_set_too(
    container: str,
    is_missing: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whichever of the two kinds a policy names, its target's containers are looked at."""
    target = {"kind": "StatefulSet", "name": "consumer", "envSourceContainerName": container}

    codes = found_codes([changed(tmp_path, scaleTargetRef=target)], monkeypatch, capsys)

    assert ("container-missing" in codes) == is_missing
    assert "target-missing" not in codes


def test_the_gain_of_the_loop_is_shown_with_its_rule(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """15 s x 250/s / 500; the rule is marked as simulated, and JSON has both numbers."""
    assert exit_code(["lab-gain-7", "--rate", "250"], monkeypatch) == ExitCode.PASS
    shown = capsys.readouterr().out
    assert exit_code(["lab-gain-7", "--rate", "250", "--json"], monkeypatch) == ExitCode.PASS
    (found,) = json.loads(capsys.readouterr().out)["policies"]

    assert "loop gain" in shown
    assert "simulated" in shown
    assert (found["loop_gain"], found["standing_lag_seconds"]) == (7.5, 2.0)


def test_flags_that_kubernetes_does_not_read_are_noted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The note has its code."""
    exit_code(["lab-sync-5", "--scenario", "lab_spike"], monkeypatch)

    assert "own-controller-only" in capsys.readouterr().out
