"""What the terminal says of a verdict."""

from __future__ import annotations

import re
from pathlib import Path

from rich.console import Console
from tests.fakes.run_folder_builder import quick_spike_run

from lagbench.adapters.run_folder import RunFolder
from lagbench.cli.verdict_table import print_verdict
from lagbench.core.telemetry import ProducerProgress
from lagbench.results.measure import judge_run


def said(folder: RunFolder) -> str:
    """Judge the run and return the table."""
    judge_run(folder)
    console = Console(width=400)
    with console.capture() as captured:
        print_verdict(console, folder)
    return captured.get()


def test_what_the_log_lacks_stands_in_the_accounting_line(tmp_path: Path) -> None:
    """Messages that are gone are named there; a log without gaps is not talked about."""
    clean: RunFolder = quick_spike_run().write(tmp_path / "clean")
    gappy: RunFolder = quick_spike_run().write(tmp_path / "gappy")
    counts = gappy.read_json(gappy.accounting)
    gappy.write_json(gappy.accounting, counts | {"not_in_log": 7, "log_holes": 7})

    assert "reordered 0, not in log 7, log holes 7" in said(gappy)
    assert "log holes" not in said(clean)


def test_a_scale_down_that_was_cut_off_is_noted(tmp_path: Path) -> None:
    """The run ends with 2 replicas: at a floor of 2 nothing is left out, at a floor of 1 it is."""
    whole, cut_off = quick_spike_run(), quick_spike_run()
    cut_off.policy_yaml = cut_off.policy_yaml.replace("minReplicaCount: 2", "minReplicaCount: 1")

    assert "wanted at the end" not in said(whole.write(tmp_path / "whole"))
    assert "note: 2 replicas were wanted at the end, floor 1" in said(cut_off.write(tmp_path / "b"))


def test_a_claim_is_answered_where_others_have_a_number(tmp_path: Path) -> None:
    """Yes when it held, no when it did not: a dash means that it was not judged."""
    broken = quick_spike_run()
    broken.policy_yaml = broken.policy_yaml.replace("minReplicaCount: 2", "minReplicaCount: 1")

    assert re.search(
        r"✓ +Baseline at the floor +must hold +yes", said(quick_spike_run().write(tmp_path))
    )
    assert re.search(r"✗ +Baseline at the floor +must hold +no", said(broken.write(tmp_path / "b")))


def test_why_a_run_is_invalid_stands_at_the_top_and_once(tmp_path: Path) -> None:
    """The SLOs below say what was measured."""
    content = quick_spike_run()
    content.records = [r for r in content.records if not isinstance(r, ProducerProgress)]

    told = said(content.write(tmp_path))

    assert told.startswith("invalid: what Kafka had taken is not known")
    assert told.count("what Kafka had taken is not known") == 1
    assert "was Ready and assigned" in told
