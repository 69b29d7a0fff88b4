"""The result of an experiment: its cells, its gaps, and the differences between its cells."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal

from pydantic import Field

from lagbench.core.compare.cell_identity import KUBERNETES_RULES, differing_facts
from lagbench.core.compare.comparable import ComparedRun, RunPair, comparable, side_names
from lagbench.core.compare.compare import BOUNDS, Bound
from lagbench.core.compare.experiment import (
    Execution,
    Expectation,
    Experiment,
    ExperimentCell,
    PlannedRun,
    Progress,
    RunRecord,
    RunVerdict,
)
from lagbench.core.compare.noise_floor import NoiseFloor
from lagbench.core.compare.pairs import IDENTITY_COUNTS, Difference, Pair, compare_pairs
from lagbench.core.compare.shown_claims import ShownValue, shown_value
from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.model import MeasureModel, StepValue
from lagbench.core.scenario.stream_start import phase_distance_seconds
from lagbench.core.significance import SIGNIFICANCE, floor_of
from lagbench.errors import WrongInput


class RunLine(MeasureModel):
    """One planned run in the result; ``run_id`` is None where every attempt was a gap."""

    pair: int
    cell: str
    seed: int
    run_id: str | None
    verdict: RunVerdict
    attempts: int
    hpa_sync_at_seconds: float | None  # as recorded
    values: dict[str, float | None]  # of the compared measures, by name
    steps: dict[str, tuple[StepValue, ...]] = Field(
        default_factory=dict, description="of the compared measures that scale steps have"
    )
    pictured: dict[str, float] = Field(
        default_factory=dict,
        description="what the picture has beside them: STAGES, WAIT, SHARE and PRICE",
    )


WAIT, PRICE = "time_lag_p99_seconds", "pod_minutes_until_at_rest"
SHARE = "hottest_partition_share"
_OF_WAIT_OR_PRICE = {WAIT, "drain_seconds", "pod_minutes"}


class CellOutcome(MeasureModel):
    """The verdicts of one cell, in runs."""

    name: str
    policy: str
    expects: Expectation
    passed: int
    failed: int
    gaps: int
    undetermined: int = 0  # results all the same (``Verdict.is_result``)

    @property
    def is_as_expected(self) -> bool:
        """Return whether every run that passed or failed did as expected, and one did."""
        expected, other = (
            (self.passed, self.failed) if self.expects == "pass" else (self.failed, self.passed)
        )
        return expected > 0 and other == 0


class CellComparison(MeasureModel):
    """One cell against the first one; a difference is second minus first."""

    first: str
    second: str
    pairs: tuple[int, ...]  # compared
    left_out: tuple[str, ...]  # the other pairs, each with its reason
    differences: tuple[Difference, ...]  # empty below two pairs

    def difference(self, name: str) -> Difference | None:
        """Return the difference of a measure; None: there is none."""
        return next((found for found in self.differences if found.name == name), None)


class ExperimentResult(MeasureModel):
    """``result.json`` of an experiment."""

    experiment: str
    title: str
    question: str
    scenario: str
    target: str
    pairs: int  # planned
    order_seed: int
    kind: Literal["comparison", "noise floor", "identity"]
    cells: tuple[CellOutcome, ...]
    runs: tuple[RunLine, ...]  # in the order in which they were made
    comparisons: tuple[CellComparison, ...]
    noise: NoiseFloor | None  # of an A/A experiment: made from it; else the last one that fits
    notes: tuple[str, ...]
    shown: tuple[ShownValue, ...] = ()  # claims that need no test

    @property
    def has_gap(self) -> bool:
        """Return whether a pair is missing in a comparison, or a claim is undetermined."""
        lacks_pairs = any(len(found.pairs) < self.pairs for found in self.comparisons)
        return lacks_pairs or any(found.verdict == "undetermined" for found in self.shown)


PHASE_TOLERANCE_SECONDS = 1.0
"""Phases that are closer count as equal: the producer starts late by less on a busy machine."""

LONGEST_PAUSE_SECONDS = 300.0
"""Runs of a pair that are further apart did not follow each other."""

_FEWEST_PAIRS = 2


Runs = Mapping[tuple[int, str], ComparedRun]
"""The measured runs by pair and cell; a gap is not in it."""


def judge_experiment(
    experiment: Experiment,
    execution: Execution,
    progress: Progress,
    runs: Runs,
    noise: NoiseFloor | None = None,
) -> ExperimentResult:
    """Return the result of a finished execution.

    A pair counts if both of its runs are measured and comparable.

    :param noise: the noise floor that is shown beside the differences; None: there is none.
    """
    schedule, is_identity = execution.schedule, experiment.kind == "identity"
    kind: Literal["comparison", "noise floor"] = "comparison"
    if experiment.is_noise_floor:
        kind = "noise floor"
    first, *others = (cell.name for cell in experiment.cells)
    names, numbers = measured_names(experiment), range(1, schedule.pairs + 1)
    return ExperimentResult(
        experiment=experiment.name,
        title=experiment.title,
        question=experiment.question,
        scenario=experiment.scenario,
        target=execution.target,
        pairs=schedule.pairs,
        order_seed=schedule.order_seed,
        kind="identity" if is_identity else kind,
        cells=tuple(_outcome(cell, progress, runs) for cell in experiment.cells),
        runs=tuple(_line(run, progress, runs, names) for run in schedule.runs),
        comparisons=()
        if is_identity
        else tuple(
            comparison_of(
                names, *pairs_of(experiment, progress, runs, names), bounds_of(experiment), "pair"
            )
            for names in ((first, other) for other in others)
        ),
        noise=noise,
        notes=tuple(_notes(experiment, progress, runs)),
        shown=tuple(
            shown_value(
                cell.name, name, expected, [runs.get((pair, cell.name)) for pair in numbers]
            )
            for cell in experiment.cells
            for name, expected in cell.shows.items()
        ),
    )


def bounds_of(experiment: Experiment) -> tuple[Bound, ...]:
    """Return the bounds of the compared measures; without any, those of the nightly gate.

    An experiment of kind identity compares none.
    """
    if experiment.kind == "identity":
        return ()
    if not experiment.bounds:
        return BOUNDS
    return tuple(
        Bound(name, absolute=found.absolute, relative=found.relative)
        for name, found in experiment.bounds.items()
    )


def measured_names(experiment: Experiment) -> tuple[str, ...]:
    """Return the measures that the cells are compared by, or that a cell shows, each once."""
    bounds = (bound.name for bound in bounds_of(experiment))
    return tuple(dict.fromkeys((*bounds, *experiment.shown_measures)))


def decidability_note(experiment: Experiment, pairs: int) -> str | None:
    """Return why a difference may not be shown with that many pairs; None: it can be.

    Holm's correction multiplies the smallest p, 2/2^n, by the number of compared measures.
    """
    compared = sum(bound.name not in IDENTITY_COUNTS for bound in bounds_of(experiment))
    most = int(SIGNIFICANCE / floor_of(pairs))
    if experiment.is_noise_floor or compared <= most:
        return None
    return (
        f"{pairs} pairs can show a difference in {most} measure{'s' if most > 1 else ''} at most, "
        f"and {compared} are compared: compare fewer, or take more pairs"
    )


def pairs_of(
    experiment: Experiment, progress: Progress, runs: Runs, cells: tuple[str, str]
) -> tuple[dict[int, RunPair], dict[int, str]]:
    """Return the comparable pairs of two cells by number, and the reasons for the others."""
    varied = {key for cell in experiment.cells for key in cell.overrides}
    numbers = range(1, progress.schedule.pairs + 1)
    sides = [{number: runs.get((number, name)) for number in numbers} for name in cells]
    return _paired(sides, cells, numbers, varied, measured_names(experiment))


def _paired(
    sides: Sequence[Mapping[int, ComparedRun | None]],
    names: Sequence[str],
    numbers: Iterable[int],
    varied: Collection[str],
    measures: Collection[str],
) -> tuple[dict[int, RunPair], dict[int, str]]:
    found, left_out = dict[int, RunPair](), dict[int, str]()
    for number in numbers:
        first, second = (side.get(number) for side in sides)
        if first is None or second is None:
            both = zip(names, (first, second), strict=True)
            missing = " and ".join(name for name, run in both if run is None)
            left_out[number] = f"no measured run of {missing}"
        elif reasons := comparable(first, second, varied=varied, measures=measures):
            left_out[number] = "; ".join(reasons)
        else:
            found[number] = first, second
    return found, left_out


def compare_cells(
    sides: Sequence[Mapping[int, ComparedRun]], bounds: Sequence[Bound], varied: Collection[str]
) -> CellComparison:
    """Return one cell against another, of two executions: their runs by seed.

    Pairs are numbered in the order of their seeds; one without both runs is left out.

    :raises WrongInput: no two runs can be compared; with each reason.
    """
    tested = tuple(bound.name for bound in bounds)
    seeds, which = sorted({*sides[0], *sides[1]}), ("the first side", "the second side")
    found, left_out = _paired(sides, which, seeds, varied, tested)
    if len(found) < _FEWEST_PAIRS:
        reasons = (f"seed {seed}: {reason}" for seed, reason in left_out.items())
        allowed = "\n  ".join(("two or more; left out:", *reasons))
        raise WrongInput(where="compare", field="pairs", value=len(found), allowed=allowed)
    names = side_names(next(iter(found.values())), varied)
    compared = comparison_of(names, found, left_out, bounds, "seed")
    return compared.model_copy(update={"pairs": tuple(range(1, len(found) + 1))})


def comparison_of(
    names: tuple[str, str],
    pairs: Mapping[int, RunPair],
    left_out: Mapping[int, str],
    bounds: Sequence[Bound],
    number: str,
) -> CellComparison:
    """Return the comparison of two sides; ``number`` names what pairs are numbered by."""
    differences: tuple[Difference, ...] = ()
    if len(pairs) >= _FEWEST_PAIRS:
        # One look: the number of pairs was fixed before the first run. A run that is a gap was not
        # left out for its values, but a measure may be missing in a run because it was bad.
        # Each comparison is a family of its own: nothing corrects over the cells.
        measured = [Pair(first.measures, second.measures) for first, second in pairs.values()]
        differences = compare_pairs(measured, bounds, looks=(len(measured),))
    return CellComparison(
        first=names[0],
        second=names[1],
        pairs=tuple(pairs),
        left_out=tuple(f"{number} {one}: {reason}" for one, reason in left_out.items()),
        differences=differences,
    )


def _outcome(cell: ExperimentCell, progress: Progress, runs: Runs) -> CellOutcome:
    planned = [run for run in progress.schedule.runs if run.cell == cell.name]
    verdicts = [record.verdict for run in planned if (record := progress.measured(run))]
    policies = {kept.measures.policy for (_, name), kept in runs.items() if name == cell.name}
    return CellOutcome(
        name=cell.name,
        policy=", ".join(sorted(policies)) or cell.policy or "the scenario's",
        expects=cell.expects,
        passed=verdicts.count("pass"),
        failed=verdicts.count("fail"),
        undetermined=verdicts.count("undetermined"),
        gaps=len(planned) - len(verdicts),
    )


def _line(run: PlannedRun, progress: Progress, runs: Runs, names: Sequence[str]) -> RunLine:
    record, kept = progress.measured(run), runs.get((run.pair, run.cell))
    values = {name: None if kept is None else NAMED[name].read(kept.measures) for name in names}
    read = {name: of for name in names if (of := NAMED[name].steps) is not None}
    steps = {} if kept is None else {name: of(kept.measures) for name, of in read.items()}
    pictured = {} if kept is None else _pictured(names, kept.measures)
    return RunLine(
        pair=run.pair,
        cell=run.cell,
        seed=run.seed,
        run_id=None if record is None else record.run_id,
        verdict="undetermined" if record is None else record.verdict,
        attempts=len(progress.attempts(run)),
        hpa_sync_at_seconds=None if record is None else record.hpa_sync_at_seconds,
        values=values,
        steps=steps,
        pictured={name: value for name, value in pictured.items() if value is not None},
    )


def _pictured(names: Sequence[str], measures: Measures) -> dict[str, float | None]:
    """Return what a picture shows of an experiment on the reaction, the wait or the pod time."""
    found = dict[str, float | None]()
    if "reaction_seconds" in names:
        found |= measures.reaction.stages
    if not _OF_WAIT_OR_PRICE.isdisjoint(names):
        planned, after = measures.scaling.pod_minutes, measures.scaling.pod_minutes_after
        found[WAIT] = NAMED[WAIT].read(measures)
        found[PRICE] = None if planned is None or after is None else planned + after
        if SHARE in names:
            found[SHARE] = NAMED[SHARE].read(measures)
    return found


def _notes(experiment: Experiment, progress: Progress, runs: Runs) -> Iterator[str]:
    for run in progress.gaps:
        last = progress.attempts(run)[-1]
        why = last.reasons[0] if last.reasons else "no reason given"
        yield f"gap: {run.key} gave no result {len(progress.attempts(run))} times ({why})"
    equal, pauses = dict[str, list[int]](), list[str]()
    for number in range(1, progress.schedule.pairs + 1):
        planned = [run for run in progress.schedule.runs if run.pair == number]
        records = [record for run in planned if (record := progress.measured(run))]
        if len(records) < len(planned):
            continue
        equal.setdefault(_phases(records), []).append(number)
        records.sort(key=lambda record: record.began_at)
        longest = max((b.began_at - a.ended_at for a, b in pairwise(records)), default=0)
        if longest > LONGEST_PAUSE_SECONDS * NS_PER_SECOND:
            minutes = longest / NS_PER_SECOND / 60
            pauses.append(f"pair {number}: its runs are {minutes:,.0f} min apart, not back to back")
    for how in ("equal", "NOT equal", "not recorded"):
        if how == "equal" or how in equal:
            numbers = equal.get(how, [])
            named = f"pair{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
            yield f"phase of the HPA's sync: {how} in {named if numbers else 'no pair'}"
    yield from pauses
    yield from sorted({_cluster(run) for run in runs.values()} - {""})
    for name, values in differing_facts(run.environment for run in runs.values()).items():
        yield f"the runs differ in {name}: {', '.join(values)}"
    for cell in experiment.cells:
        outcome = _outcome(cell, progress, runs)
        if not outcome.is_as_expected:
            yield (
                f"{cell.name} was meant to {cell.expects}: {outcome.passed} runs passed, "
                f"{outcome.failed} failed"
            )


def _cluster(run: ComparedRun) -> str:
    """Return the versions by which a run was scaled; empty: older runs of the embedded bench."""
    facts, fidelity = run.environment.facts, run.measures.fidelity
    kubernetes, keda = (facts.get(of, "unknown") for of in ("cluster.kubernetes", "versions.keda"))
    on = f"fidelity {fidelity}: Kubernetes {kubernetes} with KEDA {keda}"
    if fidelity == "kubernetes":
        return on
    rules = facts.get(KUBERNETES_RULES)
    return f"fidelity {fidelity}: the rules of Kubernetes {rules}" if rules else ""


def _phases(records: Sequence[RunRecord]) -> str:
    """Return whether the HPA's phase was equal: it moves the reaction by up to 15 s."""
    phases = [record.hpa_sync_at_seconds for record in records]
    known = [phase for phase in phases if phase is not None]
    if len(known) < len(phases):
        return "not recorded"
    distances = [phase_distance_seconds(known[0], phase) for phase in known]
    return "equal" if max(distances) <= PHASE_TOLERANCE_SECONDS else "NOT equal"
