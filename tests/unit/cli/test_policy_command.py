"""``lagbench policy check``: exit codes, JSON, several documents, and a text that fits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from lagbench.catalog import policy_file
from lagbench.cli import main
from lagbench.errors import ExitCode


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
    """Exit code 0, the verdict, the way up and the warning's code are shown."""
    code = exit_code(["lag-quick", "--scenario", "quick_spike"], monkeypatch)

    shown = capsys.readouterr().out
    assert code == ExitCode.PASS
    assert "accepted by the API server and KEDA's webhook" in shown
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


def test_strict_counts_what_cannot_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lagThreshold of 0 is stored, and never ready: only --strict makes that exit code 2."""
    metadata = {"bootstrapServers": "k:9092", "consumerGroup": "g", "lagThreshold": "0"}
    path = changed(tmp_path, triggers=[{"type": "kafka", "metadata": metadata}])

    assert exit_code([path], monkeypatch) == ExitCode.PASS
    assert exit_code([path, "--strict"], monkeypatch) == ExitCode.WRONG_INPUT


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
    assert "beside it in the file: Deployment x" in capsys.readouterr().out


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
