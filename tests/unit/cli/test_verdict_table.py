"""What the terminal says of a verdict."""

from __future__ import annotations

import re
from pathlib import Path

from tests.fakes.nights import rehearse, write_night
from tests.fakes.run_folder_builder import quick_spike_run
from tests.fakes.two_groups import two_groups

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.cli.terminal import Terminal
from lagbench.cli.verdict_table import print_comparison, print_verdict
from lagbench.core.telemetry.producer import ProducerProgress
from lagbench.results.gate import accept
from lagbench.results.measure import judge_run

MARKS = {"pass": "✓", "fail": "✗", "undetermined": "?", "not_judged": "·"}


def said(folder: RunFolder) -> str:
    """Judge the run and return what is printed of it."""
    judge_run(folder)
    return "\n".join(lines_of(folder, columns=400))


def lines_of(folder: RunFolder, *, columns: int) -> list[str]:
    """Return the lines that are printed of a judged run."""
    console = Terminal(width=columns)
    with console.capture() as captured:
        print_verdict(console, folder)
    return captured.get().splitlines()


def compared(folder: RunFolder) -> str:
    """Return what is said of the gate at 80 columns."""
    console = Terminal(width=80)
    with console.capture() as captured:
        print_comparison(console, folder)
    return captured.get()


def test_marks_and_values_are_whole_at_80_columns(tmp_path: Path) -> None:
    """The longest title of a second group takes neither the mark nor the value of its row."""
    folder = two_groups(tmp_path, reaction_seconds=1)
    verdict = judge_run(folder)

    rows = lines_of(folder, columns=80)

    for slo in verdict.slos:
        assert any(
            row.strip().startswith(MARKS[slo.status])
            and slo.title in row
            and row.rstrip().endswith(slo.value_text)
            for row in rows
        ), slo.title


def test_what_the_log_lacks_stands_in_the_accounting_line(tmp_path: Path) -> None:
    """Messages that are gone are named there; a log without gaps is not talked about."""
    clean: RunFolder = quick_spike_run().write(tmp_path / "clean")
    gappy: RunFolder = quick_spike_run().write(tmp_path / "gappy")
    counts = gappy.read_json(gappy.accounting)
    gappy.write_json(gappy.accounting, counts | {"not_in_log": 7, "log_holes": 7})

    assert "not in log 7, log holes 7" in said(gappy)
    assert "log holes" not in said(clean)


def test_a_scale_down_that_was_cut_off_is_noted(tmp_path: Path) -> None:
    """The run ends with 2 replicas: at a floor of 2 nothing is left out, at a floor of 1 it is.

    A claim is answered by yes or no: a dash means that it was not judged.
    """
    cut_off = quick_spike_run()
    cut_off.policy_yaml = cut_off.policy_yaml.replace("minReplicaCount: 2", "minReplicaCount: 1")
    whole, short = said(quick_spike_run().write(tmp_path)), said(cut_off.write(tmp_path / "b"))

    assert "note: 2 replicas" not in whole
    assert re.search("note: 2 replicas .*floor 1", short)
    assert re.search("✓ +Baseline at .* yes", whole)
    assert re.search("✗ +Baseline at .* no", short)


def test_why_a_run_is_invalid_stands_at_the_top_and_once(tmp_path: Path) -> None:
    """The SLOs below say what was measured."""
    content = quick_spike_run()
    content.records = [r for r in content.records if not isinstance(r, ProducerProgress)]

    printed = said(content.write(tmp_path))

    reason = printed.splitlines()[0].removeprefix("invalid: ").strip()
    assert printed.startswith("invalid: ")
    assert printed.count(reason) == 1
    assert "was Ready and assigned" in printed


def test_a_reason_that_only_an_unjudged_slo_has_is_printed(tmp_path: Path) -> None:
    """The table has no reason of an SLO that is not judged, so an open end with it is printed."""
    folder: RunFolder = quick_spike_run().write(tmp_path)
    verdict = judge_run(folder)
    why = next(slo.reason for slo in verdict.slos if slo.status == "not_judged")
    opened = verdict.model_copy(
        update={"status": "undetermined", "reasons": (why,), "open_ends": (why,)}
    )
    folder.write_json(folder.verdict, opened.model_dump(mode="json"))

    rows = lines_of(folder, columns=400)

    assert rows[rows.index("? UNDETERMINED") + 1] == f"  {why}"


def test_a_rehearsal_shows_what_the_gate_found(tmp_path: Path) -> None:
    """Both references with their numbers, why the night is red, and how to accept it."""
    rehearse(tmp_path, "night-1", created_at=1)
    rehearse(tmp_path, "night-2", created_at=2)
    rehearse(tmp_path, "night-3", created_at=3, reaction={"assigned_seconds": 80.0})
    red = RunFolder(tmp_path / "night-3")

    before = compared(red)
    accept(red, now=4)
    after = compared(red)

    assert "baseline night-1" in before
    assert "last night night-2" in before
    assert re.search(r" s +16\.5 +32\.5 +80\.0 +regressed", before)
    assert "gate: REGRESSED" in before
    assert "lagbench baseline night-3" in before
    assert "lagbench baseline" not in after
    assert "accepted" in after


def test_a_run_by_hand_shows_no_gate(tmp_path: Path) -> None:
    """Only rehearsals are compared."""
    assert compared(write_night(tmp_path, "by-hand", created_at=1)) == ""
    assert "gate:" not in said(quick_spike_run().write(tmp_path))
