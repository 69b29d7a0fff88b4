"""``lagbench explain``: which file it reads, and which Kafka it asks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from lagbench.adapters.kafka import kafka_lag as kafka_trigger
from lagbench.adapters.kafka import kafka_lag_process
from lagbench.cli import explain_command
from lagbench.core.keda.loop.source_metrics import PartitionOffsets
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
from lagbench.errors import NotReady, WrongInput
from lagbench.shared_with_spark.kafka_options import CONFIG_VARIABLE

HEAD = """apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: so, namespace: shop}
spec:
  scaleTargetRef: {name: w}
"""


def servers(path: Path, trigger: str, option: str | None) -> tuple[str, ...]:
    """Return the bootstrap servers of the file's first trigger."""
    path.write_text(f"{HEAD}  triggers:\n  - {trigger}\n")
    (found, *_) = explain_command._read_spec(str(path), option).triggers
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
        explain_command._read_spec(str(path), "test:9092")


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
