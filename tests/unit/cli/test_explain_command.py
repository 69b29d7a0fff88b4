"""``lagbench explain``: which file it reads, and which Kafka it asks."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from lagbench.adapters.kafka import kafka_trigger
from lagbench.cli import explain_command
from lagbench.core.keda.loop import PartitionOffsets
from lagbench.core.keda.triggers import KafkaTrigger
from lagbench.errors import NotReady, WrongInput

HEAD = """apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: so, namespace: n}
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

    monkeypatch.setattr(kafka_trigger, "open_trigger", lambda _: client)
    monkeypatch.setattr(kafka_trigger, "read_trigger_offsets", read)
    path = tmp_path / "so.yaml"
    metadata = "{bootstrapServers: 'file:9092', consumerGroup: g, topic: t}"
    path.write_text(f"{HEAD}  triggers:\n  - {{type: kafka, metadata: {metadata}}}\n")

    with pytest.raises(NotReady, match="would fail this poll") if fails else nullcontext():
        explain_command.explain(scaled_object=str(path))

    assert client.is_closed
    assert ("1,200" in capsys.readouterr().out) is not fails
