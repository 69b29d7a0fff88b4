"""The gate of the nightly rehearsal, on nights in a temporary folder."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.fakes.compared_runs import write_run
from tests.fakes.measured_run import quick_spike_measures
from tests.fakes.nights import measures_with, rehearse, write_night
from tests.fakes.run_folder_builder import SCENARIO_YAML, quick_spike_run

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.compare.cell_identity import Environment
from lagbench.core.compare.compare import Comparison
from lagbench.core.compare.earlier_runs import differences, lines
from lagbench.core.compare.noise_floor import MeasureNoise, NoiseFloor
from lagbench.core.measures.measures import NAMED
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import LagbenchError, NotReady, WrongInput
from lagbench.results import history
from lagbench.results.cell_run import read_scenario
from lagbench.results.compared_runs import NOISE_FLOORS_FILE, pinned_baselines, read_compared
from lagbench.results.gate import accept, judge_night, read_record, references
from lagbench.results.history import (
    HISTORY_FILE,
    history_row,
    keep_earlier,
    read_earlier,
    read_history,
    rebuild_history,
    update_history,
)
from lagbench.results.measure_run import judge_run, rejudge_run

GOOD = quick_spike_measures()

PEAK = GOOD.lag.peak_records or 0


def peak(times: float) -> dict[str, Any]:
    """Return a night's peak lag as a multiple of the good one's."""
    return {"lag": {"peak_records": round(PEAK * times)}}


SLOW = {"reaction": {"assigned_seconds": 80.0}}
LOAD = {"scenario": SCENARIO_YAML.replace("spike_mult: 10", "spike_mult: 20")}
SEED = {"scenario": SCENARIO_YAML.replace("seed: 1", "seed: 99")}
FIRST = ("baseline", None, None)
Night = tuple[str, int | None, int | None]
"""Status, and the numbers of the nights that are baseline and last night."""


@pytest.mark.parametrize(
    ("nights", "expected"),
    [
        # The first pass is compared with nothing, and the next night is held against it.
        ([{}, {}], [FIRST, ("within", 0, None)]),
        # The second bad night is not held against the first bad one.
        ([{}, SLOW, SLOW], [FIRST, ("regressed", 0, None), ("regressed", 0, None)]),
        # Creep: each step is within the last night's bound, and leaves the baseline's.
        (
            [peak(1.4**n) for n in range(4)],
            [FIRST, ("within", 0, None), ("regressed", 0, 1), ("regressed", 0, 1)],
        ),
        # An improvement that is lost again is a regression.
        ([{}, peak(0.5), {}], [FIRST, ("within", 0, None), ("regressed", 0, 1)]),
        # Another load, seed, policy or target has a baseline of its own.
        *(
            ([{}, {**other, **peak(5)}, {}], [FIRST, FIRST, ("within", 0, None)])
            for other in (LOAD, SEED, {"policy": "another of the name"}, {"target": "context:x"})
        ),
        # A night that missed an SLO is no reference, nor can it be the first baseline.
        ([{"verdict": "fail"}, {}], [("undetermined", None, None), FIRST]),
        # A measure that is missing is not within: the next night is not held against the gap.
        (
            [{}, {"accounting": {"lost": None}}, {}],
            [FIRST, ("undetermined", 0, None), ("within", 0, None)],
        ),
    ],
)
def test_a_night_is_held_against_the_baseline_and_the_last_good_night(
    tmp_path: Path, nights: list[dict[str, Any]], expected: list[Night]
) -> None:
    """The last night is None where it is the baseline itself."""
    found = [rehearse(tmp_path, f"night-{n}", created_at=n, **of) for n, of in enumerate(nights, 1)]

    def number(comparison: Comparison | None) -> int | None:
        return None if comparison is None else int(comparison.reference_run_id[-1]) - 1

    assert [(n.status, number(n.baseline), number(n.last_night)) for n in found] == expected


def test_the_reason_names_reference_and_measure(tmp_path: Path) -> None:
    """Of a regression, and of a measure that is missing."""
    rehearse(tmp_path, "night-1", created_at=1)
    rehearse(tmp_path, "night-2", created_at=2, **peak(0.5))
    lost = rehearse(tmp_path, "night-3", created_at=3)
    missing = {"accounting": {"lost": None}, **peak(0.5)}
    gap = rehearse(tmp_path, "night-4", created_at=4, **missing).reasons[0]

    assert "last night night-2: Peak lag: " in lost.reasons[0]
    assert "baseline night-1: Messages lost: " in gap


def test_accepting_a_regression_ends_the_red(tmp_path: Path) -> None:
    """The accepted night is the baseline and a reference from then on."""
    rehearse(tmp_path, "night-1", created_at=1)
    (pinned,) = pinned_baselines(tmp_path).values()
    assert (pinned.run_id, pinned.reason) == ("night-1", "first pass")
    assert rehearse(tmp_path, "night-2", created_at=2, **peak(3)).status == "regressed"

    accepted, before = accept(RunFolder(tmp_path / "night-2"), now=3)

    assert (accepted.run_id, accepted.reason) == ("night-2", "accepted")
    assert before == pinned
    third = rehearse(tmp_path, "night-3", created_at=4, **peak(3))
    assert third.status == "within"
    assert third.baseline is not None
    assert third.baseline.reference_run_id == "night-2"
    record = read_record(RunFolder(tmp_path / "night-2"))
    assert record is not None
    assert record.status == "regressed"  # what the gate said that night stays


def test_a_run_by_hand_is_no_reference(tmp_path: Path) -> None:
    """It passed, in the same cell, and was not at the gate; nor is a night that failed."""
    rehearse(tmp_path, "night-1", created_at=1)
    hand = write_night(tmp_path, "by-hand", created_at=2, **peak(5))
    failed = write_night(tmp_path, "failed", created_at=3, verdict="fail")
    judge_night(failed, now=3)

    night = rehearse(tmp_path, "night-2", created_at=4, **peak(5))

    assert (night.status, night.last_night) == ("regressed", None)
    for folder, allowed in ((hand, "daily_spike_rehearsal"), (failed, "verdict is pass")):
        with pytest.raises(WrongInput, match=allowed) as refused:
            accept(folder, now=5)
        assert (refused.value.field, refused.value.value) == ("run", folder.run_id)


def test_comparing_a_night_again_says_the_same(tmp_path: Path) -> None:
    """A night is never its own reference, also after it became the baseline."""
    rehearse(tmp_path, "night-1", created_at=1)
    rehearse(tmp_path, "night-2", created_at=2)

    again = [judge_night(RunFolder(tmp_path / f"night-{n}"), now=9) for n in (1, 2)]

    assert [night.status for night in again] == ["baseline", "within"]
    assert pinned_baselines(tmp_path)[again[0].cell].pinned_at == 1


def test_a_baseline_that_is_gone_or_changed_is_replaced(tmp_path: Path) -> None:
    """By the next night within the last one; a changed scenario is no reference of the cell."""
    rehearse(tmp_path, "night-1", created_at=1)
    rehearse(tmp_path, "night-2", created_at=2)
    shutil.rmtree(tmp_path / "night-1")

    assert rehearse(tmp_path, "night-3", created_at=3).status == "within"
    assert [pinned.run_id for pinned in pinned_baselines(tmp_path).values()] == ["night-3"]
    for name in ("night-2", "night-3"):
        changed = SCENARIO_YAML.replace("partitions: 12", "partitions: 24")
        (tmp_path / name / "scenario.yaml").write_text(changed)
    assert rehearse(tmp_path, "night-4", created_at=4).status == "baseline"


def test_the_newest_reference_of_each_cell_is_named(tmp_path: Path) -> None:
    """Housekeeping keeps it; a regression is none."""
    cell = rehearse(tmp_path, "night-1", created_at=1).cell
    rehearse(tmp_path, "night-2", created_at=2)
    rehearse(tmp_path, "night-3", created_at=3, **peak(3))
    other = rehearse(tmp_path, "other", created_at=4, target="context:other").cell

    assert references(tmp_path) == {cell: "night-2", other: "other"}


def test_a_folder_without_a_cell_is_reported(tmp_path: Path) -> None:
    """A run of an earlier lagbench has no digests in its manifest."""
    folder = write_night(tmp_path, "old", created_at=1)
    folder.write_json(folder.manifest, {"created_at": 1, "fidelity": "processes"})

    with pytest.raises(NotReady, match="run old "):
        judge_night(folder, now=2)


def test_the_verdict_appends_the_run(tmp_path: Path) -> None:
    """Judging a run writes its line: measures with limits, verdict, seed, manifest."""
    folder = quick_spike_run().write(tmp_path)
    verdict = judge_run(folder)

    (row,) = read_history(tmp_path)

    assert (row.run_id, row.verdict, row.scenario) == (
        folder.run_id,
        verdict.status,
        read_scenario(folder).name,
    )
    assert {name for name in row.measures if "." not in name} == set(NAMED)
    assert row.measures["limit.drain_seconds"] == 120
    assert row.measures["reaction_seconds"] == pytest.approx(16.5)
    assert row == history_row(folder)


def test_a_line_has_what_was_predicted(tmp_path: Path) -> None:
    """The residual is measured - predicted, of the prediction that has the run's phase."""
    folder = write_run(tmp_path, "a")
    spread = {"reaction_seconds": {"median": 10.0, "low": 9.0, "high": 12.0}}
    made = {"phases": 1, "hpa_sync_at_seconds": 1.0, "settled_seconds": 1.0, "watched_seconds": 1.0}
    after = made | {"measures": spread}
    folder.write_json(folder.prediction, {"before": made | {"measures": {}}, "after": after})
    update_history(folder)

    (row,) = read_history(tmp_path)

    assert row.measures["predicted.reaction_seconds"] == 10.0
    measured = row.measures["reaction_seconds"]
    assert row.residual("reaction_seconds") == (None if measured is None else measured - 10.0)
    assert row.model_copy(update={"measures": {}}).residual("reaction_seconds") is None


def test_judging_again_replaces_the_line(tmp_path: Path) -> None:
    """One line per run, with the newest verdict."""
    folder = quick_spike_run().write(tmp_path)
    judge_run(folder)
    shutil.rmtree(folder.table("telemetry"))

    with pytest.raises(LagbenchError):
        rejudge_run(folder)

    (row,) = read_history(tmp_path)
    assert row.verdict == "undetermined"
    assert set(row.measures.values()) == {None}


def test_the_columns_are_measures_and_the_manifest(tmp_path: Path) -> None:
    """Other programs read the file; machine and versions read back equal those of the manifest."""
    folder = write_run(tmp_path, "a", seed=3)
    update_history(folder)

    table = pq.read_table(tmp_path / HISTORY_FILE)
    (row,) = read_history(tmp_path)

    assert {"run_id", "cell", "verdict", "manifest.machine.cores", *NAMED} <= {*table.column_names}
    assert table.column("manifest.versions.kafka-broker").to_pylist() == ["4.3.1"]
    assert table.column("seed").to_pylist() == [3]
    assert row.environment == Environment.of_manifest(folder.read_json(folder.manifest))


def test_rebuilding_gives_the_same_history(tmp_path: Path) -> None:
    """Oldest first, without runs that were never judged; lines of deleted folders stay."""
    for number in (2, 1, 3):
        update_history(write_run(tmp_path, f"run-{number}", created_at=number))
    RunFolder.create("unjudged", tmp_path)
    before = read_history(tmp_path)
    (tmp_path / HISTORY_FILE).unlink()

    assert rebuild_history(tmp_path) == (3, 0, ())
    assert read_history(tmp_path) == before
    assert [row.run_id for row in before] == ["run-1", "run-2", "run-3"]
    shutil.rmtree(tmp_path / "run-1")
    assert rebuild_history(tmp_path) == (3, 1, ())
    assert read_history(tmp_path) == before


def test_a_broken_history_is_made_again_by_the_next_run(tmp_path: Path) -> None:
    """Reading it is an error with the command that helps; a verdict does not fail by it."""
    first, second = (write_run(tmp_path, f"run-{n}", created_at=n) for n in (1, 2))
    update_history(first)
    (tmp_path / HISTORY_FILE).write_text("no parquet")

    with pytest.raises(NotReady, match="lagbench history --rebuild"):
        read_history(tmp_path)
    update_history(second)

    assert [row.run_id for row in read_history(tmp_path)] == ["run-1", "run-2"]


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("manifest.json", {"created_at": "yesterday"}, "created_at is 'yesterday'"),
        ("manifest.json", [], "manifest.json is not"),
        ("verdict.json", {"stat": "pass"}, "verdict is None"),
    ],
)
def test_a_folder_that_lagbench_did_not_write_is_left_out_by_name(
    file: str, content: object, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A run with another content has no line, is no error of the verdict, and is named."""
    folder = write_run(tmp_path, "a")
    folder.write_json(file, content)

    update_history(folder)

    assert read_history(tmp_path) == []
    assert "run a" in caplog.text
    assert why in caplog.text
    assert why in rebuild_history(tmp_path).left_out[0]


def test_an_error_of_the_history_itself_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A TypeError comes from a mistake in the code: it is raised, and drops no run silently."""
    folder = write_run(tmp_path, "a")
    monkeypatch.setattr(history, "flat_manifest", lambda _content: len(None))  # type: ignore[arg-type]

    with pytest.raises(TypeError):
        update_history(folder)


def test_a_night_notes_a_change_and_is_not_failed_by_it(tmp_path: Path) -> None:
    """Twenty nights around 20 s, four at 37 s: 15 s above the baseline is within the gate."""
    for night in range(24):
        reaction = 18 + 2 * (night % 3) if night < 20 else 37
        folder = write_run(tmp_path, f"night-{night:02}", created_at=night, reaction=reaction)
        update_history(folder)
        if night in (2, 23):  # 22 s is the baseline
            record = judge_night(folder, now=night)

    assert record.status == "within"
    (note,) = record.notes
    assert re.match("Scale-out reaction .* night-20:", note)


def test_a_value_too_close_to_its_limit_is_a_result(tmp_path: Path) -> None:
    """Change points need the runs near a limit, too: without them their mean would move."""
    folder = quick_spike_run().write(tmp_path)
    judge_run(folder)
    found = folder.read_json(folder.verdict)
    near = [slo for slo in found["slos"] if slo["name"] == "drain_seconds"]
    near[0].update(status="undetermined", is_too_close=True)
    folder.write_json(folder.verdict, {**found, "status": "undetermined"})

    update_history(folder)

    (row,) = read_history(tmp_path)
    assert (row.verdict, row.is_result) == ("undetermined", True)


def keep_noise(root: Path, folder: RunFolder, **half_widths: float) -> None:
    """Write a noise floor of the run's cell."""
    run = read_compared(folder)
    floor = NoiseFloor(
        scenario="quick_spike",
        policy="p",
        seeds=(1,),
        load=run.load,
        policy_digest=run.policy,
        fidelity="processes",
        environment=run.environment,
        made_at=1,
        run_ids=(),
        noise=tuple(MeasureNoise(name=n, half_width=w, n=6) for n, w in half_widths.items()),
    )
    RunFolder(root).write_json(NOISE_FLOORS_FILE, {"floors": [floor.model_dump(mode="json")]})


def test_a_run_is_shown_beside_the_last_run_of_its_cell_and_its_baseline(tmp_path: Path) -> None:
    """As they were when it was judged: what is written later, or of another cell, is left out."""
    rehearse(tmp_path, "night-0", created_at=1)  # the baseline
    write_night(tmp_path, "night-1", created_at=2, **peak(2))
    write_night(tmp_path, "other", created_at=2, **LOAD)
    own = write_night(tmp_path, "night-2", created_at=3, **peak(1.5))
    for name in ("night-0", "night-1", "other", "night-2"):
        update_history(RunFolder(tmp_path / name))
    verdict = Verdict(run_id="night-2", status="pass", reasons=(), slos=())
    own.write_json(own.verdict, verdict.model_dump(mode="json"))
    keep_noise(tmp_path, own, peak_lag_records=120)

    keep_earlier(own)
    write_night(tmp_path, "night-1b", created_at=2)
    update_history(RunFolder(tmp_path / "night-1b"))
    keep_earlier(own)

    found = read_earlier(own)
    assert found is not None
    assert [(one.name, one.run_id) for one in found.runs] == [
        ("last run", "night-1"),
        ("baseline", "night-0"),
    ]
    now = round(PEAK * 1.5)
    row = next(one for one in differences(found, measures_with(**peak(1.5))) if "Peak" in one.title)
    assert row.others == tuple(
        f"{other:,} messages ({now - other:+,})" for other in (PEAK * 2, PEAK)
    )
    assert row.by_chance == "± 120"
    assert [line.split("`")[1] for line in lines(found, GOOD)] == ["night-1", "night-0"]


def test_the_first_run_of_a_cell_has_nothing_beside_it(tmp_path: Path) -> None:
    """Nor has one whose history cannot be read; nothing is shown then."""
    first = write_night(tmp_path, "night-0", created_at=1)
    update_history(first)
    keep_earlier(first)
    later = write_night(tmp_path, "night-1", created_at=2)
    (tmp_path / HISTORY_FILE).write_text("no parquet")
    keep_earlier(later)

    for folder in (first, later):
        found = read_earlier(folder)
        assert found is not None
        assert not list(differences(found, GOOD))
