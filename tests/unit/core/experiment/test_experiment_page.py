"""The picture of an experiment's runs."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from tests.fakes.experiments import experiment

from lagbench.catalog.catalog import checked_cell
from lagbench.core.compare.experiment import ExpectedValue, Experiment, draw_schedule
from lagbench.core.compare.experiment_figure import as_figure
from lagbench.core.compare.experiment_page import (
    Simulated,
    not_simulated,
    predicted_rows,
)
from lagbench.core.compare.experiment_result import (
    PRICE,
    SHARE,
    WAIT,
    CellOutcome,
    ExperimentResult,
    RunLine,
)
from lagbench.core.compare.shown_claims import ShownValue, StepCount
from lagbench.core.measures.measures import NAMED
from lagbench.core.measures.model import StepValue
from lagbench.core.measures.reaction import STAGES
from lagbench.core.simulation.simulate import simulate

DIP = "scale_up_dip_percent"


def _result(*runs: tuple[str, str, dict[str, float | None]]) -> ExperimentResult:
    lines = [
        RunLine(
            pair=number // 2 + 1,
            cell=cell,
            seed=1,
            run_id=f"run-{number}",
            verdict="pass" if verdict == "pass" else "fail",
            attempts=1,
            hpa_sync_at_seconds=None,
            values=values,
        )
        for number, (cell, verdict, values) in enumerate(runs)
    ]
    return ExperimentResult(
        experiment="e",
        title="Range & cooperative",
        question="?",
        scenario="s",
        target="embedded",
        pairs=len(runs) // 2,
        order_seed=1,
        kind="comparison",
        cells=tuple(
            CellOutcome(name=cell, policy="p", expects="pass", passed=0, failed=0, gaps=0)
            for cell in ("a", "b")
        ),
        runs=tuple(lines),
        comparisons=(),
        noise=None,
        notes=(),
    )


def _parts(figure: str | None, kind: str) -> list[ET.Element]:
    root = ET.fromstring(figure or "")  # noqa: S314 - it was just made
    return list(root.iter(f"{{http://www.w3.org/2000/svg}}{kind}"))


def _texts(figure: str | None) -> list[str]:
    return [part.text or "" for part in _parts(figure, "text")]


def test_each_run_is_a_dot_that_says_its_value() -> None:
    """The dots of one axis lie in the order of their values; a failed run is hollow."""
    figure = as_figure(
        _result(
            ("a", "pass", {"reaction_seconds": 10.0}), ("b", "fail", {"reaction_seconds": 14.0})
        )
    )

    dots = [dot for dot in _parts(figure, "circle") if len(dot)]
    assert [dot[0].text for dot in dots] == ["pair 1, a: 10.0 s, pass", "pair 1, b: 14.0 s, fail"]
    assert float(dots[0].get("cx", 0)) < float(dots[1].get("cx", 0))
    assert dots[1].get("fill") == "none"


def test_the_axis_has_round_numbers_around_all_values() -> None:
    """Values from 91 to 104 are shown from 90 to 105 in steps of 5."""
    figure = as_figure(
        _result(("a", "pass", {"drain_seconds": 91.2}), ("b", "pass", {"drain_seconds": 104.1}))
    )

    ticks = [text for text in _texts(figure) if text.endswith(".0")]
    assert ticks == ["90.0", "95.0", "100.0", "105.0"]


def test_a_value_that_was_not_measured_is_no_dot_at_zero() -> None:
    """The row says so, and a measure that nobody measured has no panel."""
    figure = as_figure(
        _result(
            ("a", "pass", {"reaction_seconds": None, "drain_seconds": None}),
            ("b", "pass", {"reaction_seconds": 14.0, "drain_seconds": None}),
        )
    )

    assert _texts(figure).count("not measured") == 1
    assert not any("drain" in text for text in _texts(figure))


def test_a_measure_with_one_value_is_named_below() -> None:
    """It has no panel; where no measure differs there is no picture."""
    loss = {"lost": 0.0}
    figure = as_figure(
        _result(
            ("a", "pass", {**loss, "drain_seconds": 1.0}),
            ("b", "pass", {**loss, "drain_seconds": 2.0}),
        )
    )

    assert NAMED["lost"].title in _texts(figure)[-1]
    assert as_figure(_result(("a", "pass", {**loss}), ("b", "pass", {**loss}))) is None


def test_each_step_is_a_dot_with_its_precision_beside_the_limit() -> None:
    """A step beyond the limit as claimed is seen beside the others, and no mean hides it."""
    dip, low_dip = (
        StepValue(value=25.2, low=24.1, high=25.2),
        StepValue(value=2.0, low=0.0, high=2.0),
    )
    made = _result(("a", "pass", {DIP: 8.4}), ("b", "fail", {DIP: 12.0}))
    first, second = made.runs
    claim = ShownValue(
        cell="a",
        name=DIP,
        expected="below 20",
        values=(8.4,),
        verdict="refuted",
        steps=StepCount(met=1, missed=1, undetermined=0),
        limits=ExpectedValue(below=20),
    )
    figure = as_figure(
        made.model_copy(
            update={
                "shown": (claim,),
                "runs": (
                    first.model_copy(update={"steps": {DIP: (low_dip, dip, StepValue())}}),
                    second.model_copy(update={"steps": {DIP: (dip,)}}),
                ),
            }
        )
    )

    dots = [dot[0].text for dot in _parts(figure, "circle") if len(dot)]
    assert dots == [
        "pair 1, a, step 1 of 3: 2.0 (0.0 to 2.0) %, step within the limit",
        "pair 1, a, step 2 of 3: 25.2 (24.1 to 25.2) %, step beyond the limit",
        "pair 1, b, step 1 of 1: 25.2 (24.1 to 25.2) %, step without a limit",
    ]
    limits = [line for line in _parts(figure, "path") if line.get("stroke-dasharray")]
    assert len(limits) == 2  # in the panel and in the legend


def _pictured(result: ExperimentResult, *numbers: dict[str, float]) -> str | None:
    runs = zip(result.runs, numbers, strict=True)
    told = tuple(run.model_copy(update={"pictured": known}) for run, known in runs)
    return as_figure(result.model_copy(update={"runs": told}))


RUNS = [(cell, verdict, {"lost": 0.0}) for cell, verdict in (("a", "pass"), ("b", "fail")) * 2]


def test_the_reaction_is_a_bar_of_its_stages() -> None:
    """A stage is the mean of the runs that have all of them, and as wide as it is long."""
    known = dict(zip(STAGES, (1.0, 8.0, 2.0, 1.0, 0.0), strict=True))
    figure = _pictured(_result(*RUNS), known, known, {**known, "t3": 4.0}, {"t1": 1.0})

    bars = [
        float(bar.get("width", 0)) for bar in _parts(figure, "rect") if bar.get("height") != "9"
    ]
    assert len(bars) == 2 * len(STAGES)
    assert bars[1] == pytest.approx(6 * bars[0], abs=0.5)
    assert {"a: 10.0 s, mean of 2 runs", "b: 12.0 s, one run", "6.0"} <= set(_texts(figure))
    assert set(STAGES.values()) <= set(_texts(figure))


def test_the_wait_stands_against_the_pod_time() -> None:
    """A run is a dot that says both; one without either is none, and a failed one is hollow."""
    both = [{WAIT: 10.0, PRICE: 2.0}, {WAIT: 30.0, PRICE: 1.0}, {WAIT: 12.0}, {}]
    figure = _pictured(_result(*RUNS), *both)

    dots = [dot for dot in _parts(figure, "circle") if len(dot)]
    assert [dot[0].text for dot in dots] == [
        "pair 1, a: 10.0 s, 2.0 pod-minutes, pass",
        "pair 1, b: 30.0 s, 1.0 pod-minutes, fail",
    ]
    assert float(dots[0].get("cx", 0)) > float(dots[1].get("cx", 0))
    assert float(dots[0].get("cy", 0)) > float(dots[1].get("cy", 0))  # downwards
    assert dots[1].get("fill") == "none"


def test_the_wait_stands_against_the_hottest_share_where_that_is_claimed() -> None:
    """Its ticks do not begin at 0, where no share is; the pod time has no picture then."""
    known = [{WAIT: 10.0, PRICE: 2.0, SHARE: 0.16}, {WAIT: 30.0, PRICE: 1.0, SHARE: 0.2}, {}, {}]
    figure = _pictured(_result(*RUNS), *known)

    dots = [dot for dot in _parts(figure, "circle") if len(dot)]
    assert [dot[0].text for dot in dots] == [
        "pair 1, a: 10.0 s, 0.160 of the messages, pass",
        "pair 1, b: 30.0 s, 0.200 of the messages, fail",
    ]
    assert "0.16" in _texts(figure)


def test_no_text_leaves_the_picture() -> None:
    """Twelve cells of long names have a legend of several lines."""
    made = _result(*RUNS)
    cells = [
        made.cells[0].model_copy(update={"name": f"start_{n}_sync_on_step"}) for n in range(12)
    ]
    runs = [
        made.runs[0].model_copy(
            update={"cell": cell.name, "pictured": {WAIT: float(n), PRICE: 1.0}}
        )
        for n, cell in enumerate(cells)
    ]
    figure = as_figure(made.model_copy(update={"cells": tuple(cells), "runs": tuple(runs)}))

    width, height = (float(ET.fromstring(figure or "").get(of, 0)) for of in ("width", "height"))  # noqa: S314
    for part in _parts(figure, "text"):
        if part.get("text-anchor") == "start":
            assert float(part.get("x", 0)) + 6.7 * len(part.text or "") <= width
        assert float(part.get("y", 0)) < height


CELL = checked_cell("quick_spike", overrides={})

MEASURES = simulate(CELL.scenario, CELL.policy).measures

BOUND = {"bounds": {"flips": {"absolute": 1}}}


def simulated(made: Experiment, eager: list[int]) -> Simulated:
    """Return runs without a flip, and those of the second cell with these flips."""
    return {
        (run.pair, run.cell): replace(
            MEASURES, flips=eager[run.pair - 1] if run.cell == "eager" else 0
        )
        for run in draw_schedule(made).runs
    }


def predicted(eager: list[int]) -> tuple[str, ...]:
    """Return the row of the second cell."""
    made = experiment(**BOUND)
    first, second = predicted_rows(made, draw_schedule(made), simulated(made, eager))
    assert (first[1], *first[3:]) == ("calm", "", "")
    return second


@pytest.mark.parametrize(
    ("flips", "outlook"),
    [
        ([5, 6, 5, 6, 5, 6], "beyond 1"),
        ([0, 1, 0, 0, 0, 1], "within 1"),
        ([0, 9, 0, 0, 0, 9], "undetermined at 1"),
        ([0, 9, 9, 9, 9, 9], "undetermined at 1"),  # five pairs that differ reach a p of 0.063
    ],
)
def test_the_pairs_decide_or_not(flips: list[int], outlook: str) -> None:
    """The interval and the smallest p of the pairs say what runs like these would show."""
    assert predicted(flips)[-1] == outlook


def test_a_row_has_the_values_by_pair() -> None:
    """The difference has its interval; the first cell has none."""
    row = predicted([5, 6, 5, 6, 5, 6])

    assert row[:3] == ("Flapping, flips", "eager", "5, 6, 5, 6, 5, 6")
    assert row[3] == "+5.5 (+4.9 to +6.1)"


def test_a_shown_value_stands_beside_what_is_expected() -> None:
    """What the simulator lacks is named, not left out in silence."""
    cells = [{"name": "calm", "shows": {"flips": {"at_most": 2}, "lost": 0}}]
    made = experiment(kind="identity", cells=cells, pairs=1)
    runs = {(1, "calm"): replace(MEASURES, flips=1)}

    (found,) = predicted_rows(made, draw_schedule(made), runs)

    assert found[2:] == ("1", "", "expected at most 2")
    assert NAMED["lost"].title in (not_simulated(made) or "")
    assert not_simulated(experiment(**BOUND)) is None
