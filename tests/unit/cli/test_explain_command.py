"""``lagbench explain``: which file it reads, and which Kafka it asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagbench.cli import explain_command
from lagbench.core.keda.triggers import KafkaTrigger
from lagbench.errors import WrongInput

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
