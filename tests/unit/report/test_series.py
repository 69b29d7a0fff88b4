"""The data of the figures: made of the run's tables alone, safe in a page."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fakes.run_folder_builder import quick_spike_run
from tests.fakes.tampered_run import Row, tampered
from tests.fakes.telemetry import of

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures.checks import rebalance_count
from lagbench.core.measures.evidence.observed_group import Observation
from lagbench.core.measures.evidence.played_actions import PlayedAction
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.simulation.prediction import Course, Prediction, RunPrediction
from lagbench.core.telemetry.records_of_recorder import HpaSample, KubeEvent
from lagbench.core.verdict.slo import Slo
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import NotReady
from lagbench.report.page import tiles
from lagbench.report.read_against import has_cpu_to_show
from lagbench.report.series import PodRow, RunSeries, Series, data_block, read_series, said
from lagbench.results.measure_run import measure_run

SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Provide a measured quick_spike run folder, which no test changes."""
    made: RunFolder = quick_spike_run().write(tmp_path_factory.mktemp("runs"))
    measure_run(made)
    return made


@pytest.fixture(scope="module")
def measures(folder: RunFolder) -> Measures:
    """Provide the measures of that folder."""
    return Measures.model_validate(folder.read_json(folder.measures))


def block(series: RunSeries, measures: Measures) -> dict[str, Any]:
    """Return the decoded block."""
    return json.loads(data_block(series, measures))


def drawn(series: RunSeries, **changed: Any) -> RunSeries:
    """Return ``series`` with other fields."""
    names = RunSeries.__dataclass_fields__
    return RunSeries(**({name: getattr(series, name) for name in names} | changed))


def test_a_table_gives_back_its_samples(folder: RunFolder, measures: Measures) -> None:
    """The coded instants of lag are those of its samples to the millisecond, the values exact."""
    series = read_series(folder, measures)
    tables = block(series, measures)["tables"]

    total, hottest = (series.lines["lag"][name] for name in ("total", "hottest"))
    milliseconds = np.rint(total.seconds * 1000).astype(int).tolist()
    assert list(accumulate(tables["lag"]["ms"])) == milliseconds
    values = {"total": total.values.tolist(), "hottest": hottest.values.tolist()}
    assert tables["lag"]["columns"] == values


def test_cpu_is_drawn_where_it_matters(tmp_path: Path) -> None:
    """Pods of 0.03 cores that nothing scales by show nothing; a message that costs CPU does.

    It has a mean and a highest line in cores, over the whole run.
    """
    folder = quick_spike_run().write(tmp_path)
    measures = measure_run(folder)
    assert "cpu" not in read_series(folder, measures).lines
    scenario = folder.read_text(folder.scenario)
    costly = scenario.replace("{process_ms: 2.0", "{cpu_ms: 1.0")
    folder.write_text(folder.scenario, costly)

    cpu = block(read_series(folder, measures), measures)["tables"]["cpu"]

    known = {value for value in cpu["columns"]["mean"] if value is not None}
    assert known == {0.03}  # as each pod of the story reports
    assert len(cpu["columns"]["highest"]) == len(cpu["ms"])
    assert sum(cpu["ms"]) > 270_000  # the stream ends 280 s after its spike


def test_what_a_measurement_is_read_against(tmp_path: Path) -> None:
    """The prediction on the run's clock, the limits, the rate of a pod, and each step's cause.

    What the folder does not have is left out: the prediction of an older version has no course.
    """
    folder = quick_spike_run().write(tmp_path)
    measures = measure_run(folder)
    bare = block(read_series(folder, measures), measures)
    assert "predicted" not in bare["tables"]
    assert bare["podRate"] == 500
    assert {"name": "reaction_seconds", "number": 90} in bare["limits"]
    causes = [change["cause"] for change in bare["events"]["changes"]]
    assert len(causes) == 5
    assert all("lag metric" in cause for cause in causes)

    course = Course(every_seconds=2, lag=(0, 500, 70), replicas=(2, 6, 6))
    kept = Prediction(
        phases=1,
        hpa_sync_at_seconds=None,
        measures={},
        settled_seconds=4,
        watched_seconds=6,
        course=course,
    )
    folder.write_json(folder.prediction, RunPrediction(before=kept).model_dump(mode="json"))
    predicted = block(read_series(folder, measures), measures)["tables"]["predicted"]

    before = (measures.load.first_spike_started_at or 0) - (measures.load.stream_started_at or 0)
    assert predicted["ms"] == [-before // 1_000_000, 2000, 2000]
    assert predicted["columns"] == {"lag": [0, 500, 70], "replicas": [2, 6, 6]}


def test_a_reading_that_failed_breaks_the_line(tmp_path: Path) -> None:
    """Its row is missing: without a null, the chart would join what was read before and after."""
    run = tampered(tmp_path)

    def lost(row: Row) -> Row | None:
        return None if 15 <= run.seconds(row["at"]) < 30 else row

    for table in ("lag", "replicas", "latency"):
        run.edit_rows(table, lost)
    measures = run.measure()
    tables = block(read_series(run.folder, measures), measures)["tables"]

    start = (run.stream_started_at - (measures.load.first_spike_started_at or 0)) // 1_000_000
    for table, column in (("lag", "total"), ("replicas", "ready"), ("latency", "p99")):
        milliseconds = list(accumulate(tables[table]["ms"]))
        assert milliseconds == sorted(set(milliseconds))
        values = tables[table]["columns"][column]
        inside = [
            value
            for at, value in zip(milliseconds, values, strict=True)
            if 15_000 <= at - start < 30_000
        ]
        assert inside == [None, None], table
        assert all(len(found) == len(values) for found in tables[table]["columns"].values())


def test_a_second_without_a_finished_message_breaks_the_time_lag(tmp_path: Path) -> None:
    """A missing bin is a gap; two lost readings of the lag are none."""
    run = tampered(tmp_path)

    def lost(row: Row) -> Row | None:
        return None if 20 <= run.seconds(row["at"]) < 22 else row

    measures = run.measure()
    before = read_series(run.folder, measures)
    for table in ("lag", "latency"):
        run.edit_rows(table, lost)
    after = read_series(run.folder, measures)

    def gaps(series: Series) -> int:
        return int(np.isnan(series.values).sum())

    assert gaps(after.lines["lag"]["total"]) == gaps(before.lines["lag"]["total"])
    assert gaps(after.lines["latency"]["p99"]) == gaps(before.lines["latency"]["p99"]) + 2


def test_events_stand_on_the_same_axis(folder: RunFolder, measures: Measures) -> None:
    """Spike, rebalances, replica changes and actions are milliseconds since the spike.

    What never ended has no end: a chart draws it to its right edge, and its start would be an
    instant.
    """
    start = measures.load.first_spike_started_at or 0
    action = PlayedAction(
        number=0, kind="kill_pod", started_at=start + 30 * SECOND, ended_at=start + 31 * SECOND
    )
    stuck = PlayedAction(number=1, kind="pause_pod", started_at=start + SECOND, problem="no end")
    never = PlayedAction(number=2, kind="pause_pod", problem="was not played")
    first, *others = measures.rebalances.episodes
    episodes = (first.model_copy(update={"ended_at": None}), *others)
    rebalances = measures.rebalances.model_copy(update={"episodes": episodes})
    acted = measures.model_copy(
        update={"actions": (action, stuck, never), "rebalances": rebalances}
    )

    events = block(read_series(folder, acted), acted)["events"]

    assert events["spikes"] == [{"name": "spike", "start": 0, "end": 60_000}]
    assert events["actions"] == [
        {"name": "kill pod", "start": 30_000, "end": 31_000},
        {"name": "pause pod", "start": 1000, "end": None},
    ]
    assert [episode["end"] is None for episode in events["episodes"]] == [True] + [False] * (
        measures.rebalances.count - 1
    )
    steps = [(change["before"], change["after"]) for change in events["changes"]]
    assert steps == [(2, 6), (6, 10), (10, 12), (12, 7), (7, 2)]


def test_a_name_cannot_end_the_script(folder: RunFolder, measures: Measures) -> None:
    """A pod's name comes from a cluster: markup, quotes and line separators stay data."""
    name = "</script><script>alert('1')</script>\u2028\"&"
    held = PodRow(name, Series(np.array([0.0]), np.array([1.0])))
    series = drawn(read_series(folder, measures), pods=(held,))

    text = data_block(series, measures)

    assert not set("<>&\u2028") & set(text)
    assert json.loads(text)["pods"][0]["pod"] == name


def test_a_partition_that_never_had_a_message_leaves_no_gap(tmp_path: Path) -> None:
    """The group commits nothing at an end of 0: the lag is 0, and the peak is the tile's."""
    run = tampered(tmp_path)
    before = read_series(run.folder, run.measure()).lines["lag"]["total"].values

    def without_messages(row: Row) -> Row:
        is_empty = row["partition"] == 0
        return {**row, "end_offset": 0, "committed": None, "lag": None} if is_empty else row

    run.edit_rows("lag", without_messages)
    measures = run.measure()
    found = read_series(run.folder, measures)

    # The one instant at which messages of the others wait for their first commit.
    assert np.isnan(found.lines["lag"]["total"].values).sum() == np.isnan(before).sum() == 1
    assert np.isnan(found.lines["lag"]["hottest"].values).sum() == 1
    assert np.nanmax(found.lines["lag"]["total"].values) == measures.lag.peak_records


def test_each_spike_has_its_own_band(folder: RunFolder, measures: Measures) -> None:
    """The pause between two bursts is no spike."""
    series = read_series(folder, measures)
    spike = measures.load.spike_windows[0]
    later = spike.model_copy(
        update={"started_at": spike.ended_at + SECOND, "ended_at": spike.ended_at + 2 * SECOND}
    )

    def bands(*windows: Any) -> list[dict[str, Any]]:
        load = measures.load.model_copy(update={"spike_windows": windows})
        found = block(series, measures.model_copy(update={"load": load}))
        return found["events"]["spikes"]

    assert bands(spike, later) == [
        {"name": "spike 1", "start": 0, "end": 60_000},
        {"name": "spike 2", "start": 61_000, "end": 62_000},
    ]


def messages(line: Series) -> float:
    """Return the messages below a line of a rate over bins of 100 ms."""
    return float(np.nansum(line.values)) / 10


def test_a_consumer_of_which_only_commits_are_known_is_drawn_by_them(tmp_path: Path) -> None:
    """The table has no processed message of it; the line has those that it committed."""
    run = tampered(tmp_path)
    measures = run.measure()
    before = read_series(run.folder, measures)

    def without_work(row: Row) -> Row:
        return {**row, "processed": 0, "processed_again": 0}

    run.edit_rows("timeline", without_work)
    after = read_series(run.folder, measures.model_copy(update={"accounting_level": "commits"}))

    for name, most in (("consumed", 0.05), ("offered", 0.001)):
        drawn_of, known = (messages(found.lines["rates"][name]) for found in (after, before))
        assert known > 0
        assert drawn_of == pytest.approx(known, rel=most)


@pytest.mark.parametrize(
    "known_by",
    [{"accounting_level": "commits"}, {"observation": Observation(group="shop", topic="orders")}],
)
def test_a_gap_of_the_readings_is_a_gap_of_the_consumed(
    tmp_path: Path, known_by: dict[str, Any]
) -> None:
    """Without offsets for 8 s under load the line is broken, and no zero or burst is drawn."""
    run = tampered(tmp_path)
    measures = run.measure()
    start_at = measures.load.first_spike_started_at or 0

    def read_at(row: Row) -> bool:
        return not 4 < (row["at"] - start_at) / SECOND < 12

    run.edit_rows("lag", lambda row: row if read_at(row) else None)
    found = read_series(run.folder, measures.model_copy(update=known_by)).lines["rates"]["consumed"]

    inside = (found.seconds > 5.5) & (found.seconds < 11)
    outside = (found.seconds > 15) & (found.seconds < 22)
    assert inside.any()
    assert np.isnan(found.values[inside]).all()
    assert not np.isnan(found.values[outside]).any()


def test_what_the_autoscaler_said_stands_in_order_of_time() -> None:
    """A condition is told once, until it says something else."""

    def sample(second: int, scaling: str) -> HpaSample:
        conditions = ["AbleToScale=True ReadyForNewScale", f"ScalingActive={scaling}"]
        return of(HpaSample, second, name="h", desired=2, current=2, conditions=conditions)

    about = {"object_kind": "HorizontalPodAutoscaler", "object_name": "h", "type": "Warning"}
    why = {"reason": "FailedGetExternalMetric", "message": "no answer"}
    event = of(KubeEvent, 3, **about, **why, count=3)

    rows = [*said([sample(1, "True"), sample(2, "True"), event, sample(4, "False")], SECOND)]

    assert [(row.seconds, row.message, row.count, row.is_warning) for row in rows] == [
        (0, "AbleToScale=True ReadyForNewScale, ScalingActive=True", 1, False),
        (2, "no answer", 3, True),
        (3, "ScalingActive=False", 1, False),
    ]


@pytest.mark.parametrize(
    ("reason", "message", "is_warning"),
    [
        ("Unhealthy", "Readiness probe failed: connection refused", False),
        ("Unhealthy", "Liveness probe failed: timeout", True),
        ("ScaledObjectDeleted", "ScaledObject was deleted", False),
        ("FailedGetExternalMetric", "no answer", True),
    ],
)
def test_what_every_run_says_is_no_warning(reason: str, message: str, is_warning: bool) -> None:
    """Until a pod is Ready its probe fails, and the end of a run deletes its ScaledObject."""
    about = {"object_kind": "Pod", "object_name": "p", "type": "Warning"}
    event = of(KubeEvent, 1, **about, reason=reason, message=message, count=1)

    (row,) = said([event], 0)

    assert row.is_warning is is_warning


CPU = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "consumer"}
BY_CPU = [{"type": "Resource", "resource": CPU}]
OF_CPU = {"maxReplicas": 3, "scaleTargetRef": TARGET, "metrics": BY_CPU}


@pytest.mark.parametrize(
    ("spec", "is_shown"),
    [
        (OF_CPU, True),
        *(({**OF_CPU, "metrics": odd}, False) for odd in (5, [5], [{"type": "Other"}])),
        *(({**OF_CPU, name: 5}, False) for name in ("scaleTargetRef", "behavior")),
        ([5], False),
    ],
)
def test_a_damaged_hpa_is_not_known(folder: RunFolder, spec: object, *, is_shown: bool) -> None:
    """The page is drawn without it; a file that is no object is one clear message."""
    folder.write_json("hpa.json", {"name": "h", "spec": spec})
    assert has_cpu_to_show(folder, np.zeros(1)) is is_shown

    folder.write_json("hpa.json", [spec])
    with pytest.raises(NotReady, match=r"hpa\.json is not an object"):
        has_cpu_to_show(folder, np.zeros(1))


NO_VERDICT = Verdict(run_id="r", status="pass", reasons=(), slos=())


def test_judged_tiles_come_first_with_their_limit(measures: Measures) -> None:
    """What nobody asked for has no colour."""
    judged = Slo("drain_seconds", "Lag drain", 60, "s").compare(60.04, "x")

    first, *others = tiles(measures, NO_VERDICT.model_copy(update={"slos": (judged,)}))

    assert (first.status, first.limit) == ("fail", "at most 60 s, below 1 % over")
    assert first.value == judged.value_text == "60.04 s"  # as in the table
    assert {tile.status for tile in others} == {"not_judged"}


def test_what_was_not_measured_is_not_zero(measures: Measures) -> None:
    """Flips without a reading of the replicas, rebalances of a consumer that reports none."""
    unseen = measures.scaling.model_copy(update={"max_replicas": None, "flips": 0})
    content = {**dict(measures), "scaling": unseen, "accounting_level": "commits"}
    own = Measures.model_validate(content)  # also one of an older version, with counts

    shown = {tile.title: tile for tile in tiles(own, NO_VERDICT)}

    assert (own.rebalances.count, own.rebalances.scale_ups.steps) == (None, None)
    assert NAMED["rebalances"].read(own) is None
    assert rebalance_count(own).numbers["rebalances"] is None
    assert shown[NAMED["flips"].title].value == "–"
    assert "not measured" in shown[NAMED["rebalance_dip_percent"].title].note


def test_the_dip_names_the_window_of_the_deepest_scale_step(measures: Measures) -> None:
    """At a low rate it is wider than 1 s; a death is no scale step, and no width is made up."""
    title = NAMED["rebalance_dip_percent"].title

    def note(*steps: tuple[float | None, float | None, str]) -> str:
        names, one = ("dip_percent", "window_seconds", "trigger"), measures.rebalances.episodes[1]
        episodes = tuple(
            one.model_copy(update=dict(zip(names, step, strict=True))) for step in steps
        )
        found = measures.rebalances.model_copy(update={"episodes": episodes})
        shown = tiles(measures.model_copy(update={"rebalances": found}), NO_VERDICT)
        return next(tile.note for tile in shown if tile.title == title)

    deep = note((10.0, 1.0, "scale_up"), (30.0, 2.5, "scale_down"), (90.0, 5.0, "pod_death"))
    assert deep.startswith("deepest, in a 2.5 s window; ")
    assert note((None, None, "scale_up")).startswith("deepest; ")
