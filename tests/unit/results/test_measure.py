"""Measures and verdict from a run folder alone."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from tests.fakes.policies import EXTERNAL, scaled_object
from tests.fakes.run_folder_builder import EPOCH, RunContent, quick_spike_run, write_table
from tests.fakes.tampered_run import TamperedRun
from tests.fakes.telemetry import of

from lagbench.core.measures.measures import Measures
from lagbench.core.policy.policy import Policy
from lagbench.core.telemetry.records_of_programs import HpaSync, Scaled
from lagbench.core.telemetry.records_of_recorder import ReadGap
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import LagbenchError, NotReady, WrongInput
from lagbench.report.page import write_report
from lagbench.results.cell_run import read_scenario
from lagbench.results.measure_run import judge_run, measure_run
from lagbench.results.run_prediction import predict_run, read_prediction

SECOND = 1_000_000_000


@pytest.fixture
def content() -> RunContent:
    """Return the whole run, to be changed by a test."""
    return quick_spike_run()


def test_the_story_of_the_run_is_measured(content: RunContent, tmp_path: Path) -> None:
    """2 to 12 to 2 pods: the numbers that the simulation fixes."""
    measures = measure_run(content.write(tmp_path))

    assert measures.fidelity == "processes"
    assert measures.run_seconds == 303.6
    assert measures.reaction.total_seconds == pytest.approx(16.502)
    assert measures.reaction.parts_sum_to_total
    assert measures.lag.peak_records == 146_560
    assert measures.lag.build_up is not None
    assert measures.lag.build_up.until == "scale_out"
    assert measures.lag.build_up.records_per_second == pytest.approx(5015.07)  # 6,000 - 2 x 500
    assert measures.drain.drain_seconds == 90
    assert measures.drain.skew_limited_seconds == pytest.approx(74.288)
    assert [episode.trigger for episode in measures.rebalances.episodes] == [
        "start",
        *["scale_up"] * 3,
        *["scale_down"] * 2,
    ]
    assert (measures.scaling.max_replicas, measures.scaling.flips) == (12, 0)
    assert (measures.scaling.self_made_flips, measures.scaling.load_following_flips) == (0, 0)
    assert measures.paid_for_itself.cleared_records == 263_717
    assert measures.paid_for_itself.has_paid is None  # the work is not known by partition
    assert measures.end_state.is_drained
    assert measures.observer_cost.total_cpu_seconds == pytest.approx(73.8)


def test_what_is_written_reads_back(content: RunContent, tmp_path: Path) -> None:
    """measures.json and verdict.json are the models, and measuring again changes no byte."""
    folder = content.write(tmp_path)

    measures, verdict = measure_run(folder), judge_run(folder)
    first = folder.measures.read_bytes(), folder.verdict.read_bytes()
    measure_run(folder)
    judge_run(folder)

    assert Measures.model_validate(folder.read_json(folder.measures)) == measures
    assert Verdict.model_validate(folder.read_json(folder.verdict)) == verdict
    assert verdict.status == "pass"
    assert (folder.measures.read_bytes(), folder.verdict.read_bytes()) == first


def test_pod_minutes_are_of_the_planned_window(run: TamperedRun) -> None:
    """22 s of the stream; the rest stands beside it, and cannot dilute it."""
    before = run.measure().scaling
    run.edit_records(
        lambda r: {**r, "at": r["at"] + 600 * SECOND} if r.get("name") == "fence_run" else r,
        "phase",
    )
    after = run.measure().scaling

    assert before.pod_minutes == pytest.approx(0.98, abs=0.01)
    assert (after.pod_minutes, after.idle_ratio) == (before.pod_minutes, before.idle_ratio)
    assert before.pod_minutes_after == pytest.approx(1.67, abs=0.01)


def test_late_readings_are_one_note_for_each_kind(content: RunContent, tmp_path: Path) -> None:
    """Of 26 lines about tenths of a second nobody reads the one about five seconds."""
    content.records += [
        ReadGap(at=EPOCH + second * SECOND, source="recorder", what=what, reason="late")
        for what, seconds in (("usage", (50, 51, 52, 90)), ("hpa", (60,)))
        for second in seconds
    ]

    validity = measure_run(content.write(tmp_path)).validity

    assert len(validity.telemetry_gaps) == 3
    late = [note for note in validity.notes if note.endswith(": late")]
    assert late == [
        "no reading of usage for 2.0 s at most, 2 times: late",
        "no reading of hpa for 0.0 s: late",
    ]


def test_a_run_without_accounting_and_fence_is_undetermined(
    content: RunContent, tmp_path: Path
) -> None:
    """Both files are missing: the counts are None, the end is unknown, nothing passes."""
    content.accounting, content.fence = {}, {}
    folder = content.write(tmp_path)

    measures, verdict = measure_run(folder), judge_run(folder)

    assert measures.accounting.lost is None
    assert measures.lag.time_lag_seconds.p99 is None
    assert measures.end_state.is_drained is None
    assert verdict.status == "undetermined"


def test_replicas_between_two_samples_count_as_wanted(content: RunContent, tmp_path: Path) -> None:
    """The autoscaler went from 2 to 13 and back within a second: most were 13, not 12."""
    times = EPOCH + 5 * SECOND + 300_000_000, EPOCH + 5 * SECOND + 600_000_000
    for at, before, after in zip(times, (2, 13), (13, 2), strict=True):
        content.records.append(
            of(Scaled, 0, "autoscaler", at=at, replicas_before=before, replicas_after=after)
        )

    measures = measure_run(content.write(tmp_path))

    assert measures.scaling.max_replicas == 13
    assert 13 in [change.replicas_after for change in measures.scaling.changes]


def test_unknown_telemetry_rows_are_counted(content: RunContent, tmp_path: Path) -> None:
    """What is no record of this version is left out, counted, and leaves the run undetermined."""
    folder = content.write(tmp_path)
    part = folder.table("telemetry") / "part-00001.parquet"
    row = {"at": [1], "source": ["x"], "kind": ["new"], "record": [json.dumps({"kind": "new"})]}
    pq.write_table(pa.table(row), part)

    measures = measure_run(folder)

    assert measures.accounting.foreign_telemetry_records == 1
    assert judge_run(folder).status == "undetermined"


@pytest.mark.parametrize(
    ("broken", "error", "text"),
    [
        ("no timeline", NotReady, "table timeline"),  # a pipeline that did not finish
        ("half a table", NotReady, "table lag "),
        ("partitions: 0", WrongInput, r"scenario\.yaml: partitions = 0"),
        ("- a\n- b\n", WrongInput, r"policy\.yaml"),  # a YAML list scales nothing
    ],
)
def test_a_folder_that_cannot_be_measured_is_named(
    content: RunContent, tmp_path: Path, broken: str, error: type[LagbenchError], text: str
) -> None:
    """The message names the file or table, the field and the value."""
    if broken == "no timeline":
        del content.tables["timeline"]
    elif broken.startswith("partitions"):
        content.scenario_yaml = content.scenario_yaml.replace("partitions: 12", broken)
    elif broken.startswith("-"):
        content.policy_yaml = broken
    folder = content.write(tmp_path)
    if broken == "half a table":
        (folder.table("lag") / "part-00000.parquet").write_bytes(b"PAR1")

    with pytest.raises(error, match=text):
        measure_run(folder)


def test_empty_tables_leave_measures_empty(content: RunContent, tmp_path: Path) -> None:
    """A run in which nothing was processed: no number is invented."""
    folder = content.write(tmp_path)
    for name in ("timeline", "lag", "partition_gaps"):
        write_table(folder, name, [])

    measures = measure_run(folder)

    assert measures.lag.peak_records is None
    assert measures.rebalances.max_dip_percent is None
    assert measures.drain.drain_seconds is None
    assert judge_run(folder).status == "undetermined"


def test_a_run_is_predicted_before_and_once_more_with_its_own_phase(tmp_path: Path) -> None:
    """The first recorded sync is all that the second prediction takes from the run.

    The report names every predicted measure with its unit.
    """
    folder = quick_spike_run().write(tmp_path)
    policy = Policy.read(yaml.safe_load(folder.policy.read_text()), where="lag-quick")
    before = predict_run(folder, read_scenario(folder), policy).before

    measure_run(folder)
    judge_run(folder)

    made = read_prediction(folder)
    assert made is not None
    assert made.before == before is not None
    assert made.after is not None
    assert 0 <= (made.after.hpa_sync_at_seconds or -1) <= 16
    text = write_report(folder).read_text()
    assert "Predicted, measured" in text
    assert "Peak lag, messages" in text


def test_a_run_without_a_prediction_says_why(content: RunContent, tmp_path: Path) -> None:
    """A policy that cannot be played, or a cluster's HPA that reports no sync, stops no run.

    A folder from before there were predictions is measured as it was.
    """
    content.records = [r for r in content.records if not isinstance(r, HpaSync)]
    folder = content.write(tmp_path)
    measure_run(folder)
    assert read_prediction(folder) is None
    nothing = Policy.read(scaled_object(triggers=[EXTERNAL]), where="mine.yaml")
    made = predict_run(folder, read_scenario(folder), nothing)
    assert made.before is None
    assert "scaler metadata" in made.before_reason
    policy = Policy.read(yaml.safe_load(folder.policy.read_text()), where="lag-quick")
    predict_run(folder, read_scenario(folder), policy)

    measure_run(folder)

    found = read_prediction(folder)
    assert found is not None
    assert found.after is None
    assert "sync" in found.after_reason
