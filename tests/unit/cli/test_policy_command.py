"""``lagbench policy check``: exit codes, JSON, several documents, and a text that fits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.cli.conftest import Answer, Command

from lag_scaler import kafka_process as kafka_lag_process
from lagbench.adapters.kafka import kafka_lag as kafka_trigger
from lagbench.adapters.kube.kube import Kube
from lagbench.catalog.catalog import policy_file
from lagbench.cli import explain_command
from lagbench.cli.policy_command import CANNOT_RUN
from lagbench.core.keda.loop.source_metrics import PartitionOffsets
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
from lagbench.core.policy.review.cluster_facts import ClusterFacts
from lagbench.core.scenario.run_names import NAMESPACE
from lagbench.errors import ExitCode, NotReady, WrongInput
from lagbench.orchestrator import observed_target
from pod_program.kafka_config import CONFIG_VARIABLE

WORKLOAD = {"apiVersion": "apps/v1", "kind": "Deployment"}


@pytest.fixture
def check(lagbench: Command) -> Any:
    """Return ``lagbench policy check``; a manifest, or several, are written to a file."""

    def run(*arguments: Any) -> Answer:
        given = []
        for one in arguments:
            if not isinstance(one, str):
                documents = one if isinstance(one, list) else [one]
                path = lagbench.home.parent / "file.yaml"
                path.write_text(yaml.safe_dump_all(documents))
            given.append(one if isinstance(one, str) else str(path))
        return lagbench("policy", "check", *given)

    return run


def quick(**spec: object) -> dict[str, Any]:
    """Return lag-quick with fields of its spec replaced."""
    manifest: dict[str, Any] = yaml.safe_load(policy_file("lag-quick").read_text())
    manifest["spec"] |= spec
    return manifest


def with_threshold(threshold: str) -> dict[str, Any]:
    """Return lag-quick with another lagThreshold."""
    metadata = {"bootstrapServers": "k:9092", "consumerGroup": "g", "lagThreshold": threshold}
    return quick(triggers=[{"type": "kafka", "metadata": metadata}])


def beside(container: object) -> list[Any]:
    """Return lag-quick beside the consumers' Deployment with such a container."""
    spec = {"template": {"spec": {"containers": [container]}}}
    return [quick(), {**WORKLOAD, "metadata": {"name": "consumer"}, "spec": spec}]


def with_windows(windows: str) -> dict[str, Any]:
    """Return lag-quick with cron windows."""
    manifest = quick()
    manifest["metadata"]["annotations"] = {"lagbench.io/cron-windows": windows}
    return manifest


@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        # Accepted, with a warning and the way up.
        (["lag-quick", "--scenario", "quick_spike"], 0, ["2 → 6 → 12", "down-window-short"]),
        ([quick(minReplicas=3)], 2, ["spec.minReplicas = 3", "instead: minReplicaCount"]),
        # Exit code 1 would say that the policy cannot run.
        ([beside({"name": "c", "env": {"A": "x"}})], 2, ["containers[0].env"]),
        ([beside("c")], 2, ["containers[0]"]),
        # Stored, and never ready: exit code 1 stops a CI job, and --strict makes it 2.
        ([with_threshold("0")], CANNOT_RUN, []),
        ([with_threshold("abc")], CANNOT_RUN, []),
        ([with_threshold("0"), "--strict"], 2, []),
        ([with_windows("60-70")], CANNOT_RUN, ["0 cron triggers"]),
        # Beside other documents in the file.
        ([[{**WORKLOAD, "metadata": {"name": "x"}}, quick(), None]], 0, ["Deployment x"]),
        ([{"kind": "ConfigMap"}], 2, ["is not allowed"]),
        # 15 s x 250/s / 500; with a threshold of 3,750 it is 1.
        (["lab-gain-7", "--rate", "250"], 0, ["loop gain", "7.5:", "3,750"]),
    ],
)
def test_the_exit_code_tells_refused_from_broken(
    check: Any, arguments: list[Any], code: int, shown: list[str]
) -> None:
    """0: accepted, also with warnings; 1: it cannot run; 2: refused."""
    answer = check(*arguments)

    assert answer.code == code
    assert [text for text in shown if text not in answer.text] == []


def test_json_holds_all_of_it(check: Any) -> None:
    """Verdict, findings, suggested threshold (500/s x 30 s x 0.75) and the loop's numbers."""
    answer = check("production", "--rate", "500", "--slo", "time_lag_p99_seconds=30", "--json")
    (found,) = json.loads(answer.out)["policies"]
    (gain,) = json.loads(check("lab-gain-7", "--rate", "250", "--json").out)["policies"]

    assert (found["accepted"], found["can_run"]) == (True, True)
    assert found["suggested_lag_threshold"] == 11_250
    assert {item["code"] for item in found["findings"]} >= {"threshold-suggestion"}
    assert (gain["loop_gain"], gain["standing_lag_seconds"]) == (7.5, 2.0)


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_no_line_is_wider_than_the_terminal(lagbench: Command, columns: int) -> None:
    """The text folds, at most at 110 columns."""
    lagbench.monkeypatch.setenv("COLUMNS", str(columns))
    answer = lagbench("policy", "check", "scale-to-zero")

    assert max(map(len, answer.out.splitlines())) <= min(columns, 110)


def grace(seconds: int) -> list[Any]:
    """Return lag-quick, beside consumers with that grace period."""
    pod = {"containers": [{"name": "c"}], "terminationGracePeriodSeconds": seconds}
    metadata = {"name": "consumer", "namespace": NAMESPACE}
    return [quick(), {**WORKLOAD, "metadata": metadata, "spec": {"template": {"spec": pod}}}]


ELSEWHERE = {"kind": "StatefulSet", "name": "consumer", "envSourceContainerName": "other"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        # Bursts 100 s apart: the 20 s of lag-quick end between them.
        (["lag-quick", "--scenario", "short_bursts"], "down-window-under-pause"),
        # quick_spike takes 20 s, plus 10 s to leave.
        ([grace(29), "--scenario", "quick_spike"], "grace-period-short"),
        # The consumers' Deployment as it is committed gives a pod 40 s.
        (["lag-quick", "--shutdown-seconds", "41"], "grace-period-short"),
        # The consumers are known as a StatefulSet, too.
        ([quick(scaleTargetRef=ELSEWHERE)], "container-missing"),
    ],
)
def test_what_is_around_the_policy_decides(check: Any, arguments: list[Any], code: str) -> None:
    """The scenario's load and pods, or those of the bench."""
    (policy,) = json.loads(check(*arguments, "--json").out)["policies"]

    assert code in {item["code"] for item in policy["findings"]}


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the context of a kubeconfig whose API server is not there."""
    for variable in ("AIRFLOW_CONN_KUBERNETES_DEFAULT", "AIRFLOW_CONN_KAFKA_DEFAULT"):
        monkeypatch.delenv(variable, raising=False)
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
    monkeypatch.setattr(Kube, "server_version", lambda _: "v1.38.0")
    return nowhere


def test_a_cluster_decides(check: Any, facts: str) -> None:
    """What is stored alone is rejected beside another; each fact of the cluster is told."""
    alone, answer = check("lag-quick"), check("lag-quick", "--target", facts)

    assert "read from" not in alone.out
    assert (alone.code, answer.code) == (ExitCode.PASS, ExitCode.WRONG_INPUT)
    assert "ScaledObject 'theirs'" in answer.text
    assert f"context:away, namespace {NAMESPACE}" in answer.out
    assert {line for line in answer.out.splitlines() if line.startswith("  ") and ": " in line} >= {
        "  ScaledObjects: theirs",
        "  HorizontalPodAutoscalers: none",
        "  Deployment consumer: not there",
        "  API group argoproj.io: not served",
        "  Kubernetes: v1.38.0, followed as 1.37",
    }
    assert "LimitRanges" not in answer.out
    # Null is what was not asked, also the cluster as a whole.
    cluster = json.loads(check("lag-quick", "--target", facts, "--json").out)["cluster"]
    assert json.loads(check("lag-quick", "--json").out)["cluster"] is None
    assert (cluster["target"], cluster["scaled_objects"]) == (facts, ["theirs"])
    assert cluster["limit_ranges"] is None


@pytest.mark.parametrize(
    ("options", "code", "printed"),
    [
        ("--target minikube", 2, "--target"),
        ("--target context:elsewhere", 2, "--target"),
        ("--target-settings mine.env", 2, "--target"),
        ("--target embedded --target-settings mine.env", 2, "--target"),
        ("--target context:away --target-settings absent.env", 2, "--target"),
        # A policy that goes to another namespace is rejected: nothing was read of that.
        ("--target context:away --target-settings {settings}", 2, "metadata.namespace"),
        ("--target context:away", 3, "http://127.0.0.1:1 does not answer"),
        ("--target kind", 3, "make kind"),
        ("--target embedded", 3, "lagbench up"),
    ],
)
@pytest.mark.usefixtures("nowhere")
def test_a_target_is_spelt_as_for_a_run(
    check: Any, tmp_path: Path, options: str, code: int, printed: str
) -> None:
    """A wrong one is exit code 2, one that cannot be read 3, with one message and no answer."""
    settings = tmp_path / "mine.env"
    settings.write_text("NAMESPACE=orders\nKAFKA_BOOTSTRAP_SERVERS=kafka:9092\n")
    answer = check("lag-quick", *options.format(settings=settings).split())

    assert (answer.code, answer.out) == (code, "")
    assert printed in answer.text


HEAD = """apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: so, namespace: shop}
spec:
  scaleTargetRef: {name: w}
"""


def servers(path: Path, trigger: str, option: str | None) -> tuple[str, ...]:
    """Return the bootstrap servers of the file's first trigger."""
    path.write_text(f"{HEAD}  triggers:\n  - {trigger}\n")
    (found, *_) = explain_command._read_policy(str(path), option)[1].triggers
    assert isinstance(found.parameters, KafkaTrigger)
    return found.parameters.bootstrap_servers


@pytest.mark.parametrize("name", ["bootstrapServers: file:9092", "bootstrapServersFromEnv: KAFKA"])
@pytest.mark.parametrize("variable", ["prod:9092", None])
def test_the_option_decides_which_kafka_is_asked(
    name: str, variable: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the file nor the shell's variable, which may be production's."""
    monkeypatch.delenv("KAFKA", raising=False)
    if variable is not None:
        monkeypatch.setenv("KAFKA", variable)
    trigger = f"{{type: kafka, metadata: {{{name}, consumerGroup: g, topic: t}}}}"

    assert servers(tmp_path / "so.yaml", trigger, "test:9092") == ("test:9092",)


@pytest.mark.parametrize("text", ["- a\n- b\n", f"{HEAD}  triggers: [kafka]\n"])
def test_a_file_of_another_shape_is_wrong_input(text: str, tmp_path: Path) -> None:
    """A list, or a trigger that is a word, gets a message and no error of Python."""
    path = tmp_path / "so.yaml"
    path.write_text(text)

    with pytest.raises(WrongInput):
        explain_command._read_policy(str(path), "test:9092")


class Client:
    """A client of Kafka that tells whether it is closed."""

    is_closed = False

    def close(self) -> None:
        """Close."""
        self.is_closed = True


@pytest.mark.parametrize("fails", [False, True])
def test_the_client_of_a_kafka_trigger_is_closed(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After the reading, and after one that KEDA would fail."""
    client = Client()

    def read(_client: Client, trigger: KafkaTrigger) -> dict[tuple[str, int], PartitionOffsets]:
        if fails:
            raise ValueError("expected at least one active partition")
        return {(trigger.topic, 0): PartitionOffsets(end=1_250, committed=50)}

    monkeypatch.setattr(kafka_trigger, "open_trigger", lambda *_: client)
    monkeypatch.setattr(kafka_trigger, "read_trigger_offsets", read)
    path = tmp_path / "so.yaml"
    metadata = "{bootstrapServers: 'file:9092', consumerGroup: g, topic: t}"
    path.write_text(f"{HEAD}  triggers:\n  - {{type: kafka, metadata: {metadata}}}\n")

    with pytest.raises(NotReady) if fails else nullcontext():
        explain_command.explain(scaled_object=str(path))

    assert client.is_closed
    assert ("1,200" in capsys.readouterr().out) is not fails


@pytest.mark.parametrize(
    ("in_the_file", "named", "has_log_in"),
    [
        ("", None, True),
        ("bootstrap.servers=b:9092, kafka:9092\n", None, True),
        ("bootstrap.servers=other:9092\n", None, False),
        ("bootstrap.servers=other:9092\n", "kafka:9092,b:9092", True),
    ],
)
@pytest.mark.parametrize("kind", ["kafka", "external"])
def test_the_log_in_of_the_file_goes_to_its_own_servers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    in_the_file: str,
    named: str | None,
    has_log_in: bool,
    kind: str,
) -> None:
    """Who writes a ScaledObject cannot have it sent elsewhere; who names servers may send it."""
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=ssl\n{in_the_file}")
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    asked: list[Mapping[str, object]] = []

    def refuse(*given: Any, **_: object) -> None:
        asked.append(next(each for each in reversed(given) if isinstance(each, Mapping)))
        raise NotReady("asked")

    monkeypatch.setattr(kafka_trigger, "open_admin", refuse)
    monkeypatch.setattr(kafka_lag_process, "KafkaLagProcess", refuse)
    path = tmp_path / "so.yaml"
    metadata = "bootstrapServers: 'kafka:9092,b:9092', consumerGroup: g, topic: t"
    more = {"kafka": "", "external": ", scalerAddress: 'lag-scaler:6000'"}[kind]
    path.write_text(f"{HEAD}  triggers:\n  - {{type: {kind}, metadata: {{{metadata}{more}}}}}\n")

    with pytest.raises(NotReady, match="asked"):
        explain_command.explain(scaled_object=str(path), bootstrap_servers=named)

    assert ("security.protocol" in asked[0]) is has_log_in
