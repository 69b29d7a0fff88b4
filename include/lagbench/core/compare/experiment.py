"""Define an experiment: a question, the cells whose difference answers it, and its runs so far.

The unit of comparison is the pair: one run of each cell with the same seed, back to back. A run
that did not measure what was planned (``Verdict.is_result``) is repeated once, at once. If that one
did not either, the run is a gap, and its pair is left out of the result. A run that is undetermined
only because a value lies too close to its limit is a result: a rule that repeats it would choose
runs by their values. A run that ends without a verdict (stopped, or the bench failed) leaves no
record: it is missing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from lagbench.core.kubernetes_values import HPA_SYNC_SECONDS, NS_PER_SECOND
from lagbench.core.measures.model import MeasureModel
from lagbench.core.scenario.scenario import MAX_SEED
from lagbench.core.significance import PLANNED_LOOKS, SIGNIFICANCE, floor_of
from lagbench.errors import WrongInput

_WORDS = {"equals": "", "above": "above ", "at_least": "at least ", "below": "below "}


class ExpectedValue(BaseModel):
    """All given limits hold; a plain number in the file is ``equals``. In the measure's unit."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    equals: float | None = Field(None)
    above: float | None = Field(None)
    at_least: float | None = Field(None)
    below: float | None = Field(None)
    at_most: float | None = Field(None)

    @model_validator(mode="before")
    @classmethod
    def _is_a_number_or_limits(cls, given: Any) -> Any:
        is_number = isinstance(given, int | float) and not isinstance(given, bool)
        return {"equals": given} if is_number else given

    @model_validator(mode="after")
    def _says_something(self) -> ExpectedValue:
        if not self._limits:
            raise ValueError(f"a number, or one of {', '.join(type(self).model_fields)}")
        return self

    @property
    def text(self) -> str:
        """Return the limits in words: ``0``, ``above 0 and at most 5``."""
        return " and ".join(
            f"{_WORDS.get(name, 'at most ')}{limit:,g}" for name, limit in self._limits.items()
        )

    @property
    def numbers(self) -> tuple[float, ...]:
        """Return the limits alone."""
        return tuple(self._limits.values())

    def holds(self, low: float, high: float) -> bool | None:
        """Return whether every value from ``low`` to ``high`` meets the limits.

        False: no value does. None: some do, so the precision leaves it open.
        """
        is_met = True
        for name, limit in self._limits.items():
            always, never = {
                "equals": (low == high == limit, limit < low or limit > high),
                "above": (low > limit, high <= limit),
                "at_least": (low >= limit, high < limit),
                "below": (high < limit, low >= limit),
                "at_most": (high <= limit, low > limit),
            }[name]
            if never:
                return False
            is_met &= always
        return is_met or None

    @property
    def _limits(self) -> dict[str, float]:
        return self.model_dump(exclude_none=True)


MOST_SHOWN_PAIRS = 12
"""An identity experiment tests nothing: one pair can show it."""

DRAWN_SEEDS = (655, 432, 440, 773, 742, 105, 68, 376, 715, 475, 384, 45)
"""``seeds: drawn``: ``random.Random(38).sample(range(1, 1000), 12)``, drawn before anything ran on
them. The twelve seeds of older experiments are the mild ones: those of 1 to 40 whose hottest
partition has the least share (16 to 18 %, the median of the 40 is 19 %)."""

LISTED_PAIRS = 2
"""Too few for a difference; enough to see on another target whether it does as the first one."""

CELL_NAME = r"^[a-z][a-z0-9_]{0,39}$"

Expectation = Literal["pass", "fail"]

ExperimentKind = Literal["difference", "identity"]

Setting = bool | int | float | str


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


def allowed_pairs(pairs: int, kind: ExperimentKind = "difference") -> int:
    """Return ``pairs``.

    :raises ValueError: an experiment of that kind cannot have that many; the text says why.
    """
    if kind == "identity":
        if 1 <= pairs <= MOST_SHOWN_PAIRS:
            return pairs
        raise ValueError(f"1 to {MOST_SHOWN_PAIRS} (kind identity tests nothing)")
    if pairs in (LISTED_PAIRS, *PLANNED_LOOKS):
        return pairs
    reason = "that are the planned numbers of pairs"
    if floor_of(pairs) > SIGNIFICANCE:
        reason = f"the smallest p of {pairs} pairs is {floor_of(pairs):g}, above {SIGNIFICANCE:g}"
    raise ValueError(f"{LISTED_PAIRS} (they show no difference), 6, 8 or 12 ({reason})")


class ExperimentCell(_Model):
    """One side of the comparison: a policy and settings on the experiment's scenario."""

    name: str = Field(pattern=CELL_NAME)
    policy: str | None = Field(None, min_length=1, description="None: the scenario's own")
    overrides: Mapping[str, Setting] = Field({}, description="dotted setting to value")
    expects: Expectation = Field(
        "pass", description="the verdict that this cell is meant to have; both are results"
    )
    shows: Mapping[str, ExpectedValue] = Field(
        {},
        description="measures, and what each must be in every run of the cell; one that scale "
        "steps have, in every step",
    )


class MeasureBound(_Model):
    """The size of a difference that does not matter: the larger of the two."""

    absolute: float = Field(0.0, ge=0, description="in the measure's unit")
    relative: float = Field(0.0, ge=0, description="as a part of the first cell's value")


class Experiment(_Model):
    """One experiment file."""

    name: str = Field(pattern=CELL_NAME)
    title: str = Field(min_length=1)
    question: str = Field(min_length=1)
    kind: ExperimentKind = Field(
        "difference",
        description="difference: cells are tested by pairs; identity: each cell shows something "
        "that needs no test, such as counts of messages",
    )
    scenario: str = Field(min_length=1)
    overrides: Mapping[str, Setting] = Field({}, description="settings of all cells")
    cells: tuple[ExperimentCell, ...] = Field(
        min_length=1,
        max_length=12,
        description="the others are compared with the first",
        strict=False,
    )
    pairs: int
    hours: float = Field(gt=0, le=1000, description="expected duration of all pairs")
    seeds: tuple[Annotated[int, Field(ge=0, le=MAX_SEED)], ...] = Field(
        (),
        description="of the pairs, in their order; without any 1, 2, 3 …; drawn: DRAWN_SEEDS",
        strict=False,
    )
    order_seed: int = Field(1, ge=0, le=MAX_SEED, description="draws the order of all runs")
    phase: Literal["fixed", "free"] = Field(
        "fixed", description="fixed: both runs of a pair have the same phase of the HPA's sync"
    )
    bounds: Mapping[str, MeasureBound] = Field(
        {}, description="compared measures; without any, those of the nightly gate"
    )
    schedule: str | None = Field(
        None, description="cron expression (UTC) of the Dag; None: by hand"
    )

    @field_validator("seeds", mode="before")
    @classmethod
    def _of_the_drawn_list(cls, given: Any) -> Any:
        return DRAWN_SEEDS if given == "drawn" else given

    @model_validator(mode="after")
    def _is_consistent(self) -> Experiment:
        try:
            allowed_pairs(self.pairs, self.kind)
        except ValueError as error:
            raise ValueError(f"pairs must be {error}") from error
        if self.kind == "difference" and len(self.cells) < 2:
            raise ValueError("cells must be two to twelve (a difference has two sides)")
        if self.kind == "identity" and self.bounds:
            raise ValueError("bounds must be absent: kind identity tests no difference")
        if self.kind == "identity" and not any(cell.shows for cell in self.cells):
            allowed = "one to twelve, and one of them has shows (kind identity)"
            raise ValueError(f"cells must be {allowed}")
        names = [cell.name for cell in self.cells]
        if len(set(names)) < len(names):
            raise ValueError(f"cells must be of different names (they are {', '.join(names)})")
        if 1 < len(set(self.seeds)) < len(self.seeds):
            allowed = "all different, or one seed alone: a claim on one placement of the hot keys"
            raise ValueError(f"seeds must be {allowed}")
        if self.seeds and len(self.seeds) < self.pairs:
            raise ValueError(f"seeds must be at least {self.pairs}, one for each pair")
        return self

    def adapted(self, cells: Collection[str], overrides: Mapping[str, Setting]) -> Experiment:
        """Return the experiment with these of its cells (empty: all) and more settings.

        A setting of a cell of its own goes first.

        :raises WrongInput: it has no such cell, or its kind needs more of them.
        """
        known = [cell.name for cell in self.cells]
        if unknown := [name for name in cells if name not in known]:
            raise _wrong(self, "cells", ", ".join(unknown), f"some of {', '.join(known)}")
        data = self.model_dump(mode="json")
        data["cells"] = [cell for cell in data["cells"] if not cells or cell["name"] in cells]
        data["hours"] *= len(data["cells"]) / len(known)
        data["overrides"] = {**data["overrides"], **overrides}
        try:
            return Experiment.model_validate(data)
        except ValidationError as error:
            allowed = str(error.errors()[0]["ctx"]["error"])
            raise _wrong(self, "cells", ", ".join(cells), allowed) from error

    @property
    def shown_measures(self) -> tuple[str, ...]:
        """Return the measures that a cell shows, each once."""
        return tuple(dict.fromkeys(name for cell in self.cells for name in cell.shows))

    @property
    def is_noise_floor(self) -> bool:
        """Return whether all cells are the same: the differences are then noise (A/A)."""
        first = self.cells[0]
        return self.kind == "difference" and all(
            (cell.policy, cell.overrides) == (first.policy, first.overrides) for cell in self.cells
        )

    def hours_of(self, pairs: int) -> float:
        """Return the expected hours of that many pairs."""
        return self.hours * pairs / self.pairs

    @property
    def run_seconds(self) -> float:
        """Return the expected seconds of one run: the mean of the cells."""
        return 3600 * self.hours / (self.pairs * len(self.cells))

    def overrides_of(self, cell: ExperimentCell) -> dict[str, str]:
        """Return the settings of a cell as text, as ``--set`` takes them."""
        return {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in {**self.overrides, **cell.overrides}.items()
        }


Item = TypeVar("Item")


class PlannedRun(MeasureModel):
    """One run of the schedule."""

    pair: int  # from 1
    cell: str
    seed: int
    hpa_sync_at_seconds: float | None  # second of the stream; None: as it comes

    @property
    def key(self) -> str:
        """Return the name of the run inside its experiment."""
        return f"pair_{self.pair}_{self.cell}"

    def overrides(self, experiment: Experiment) -> dict[str, str]:
        """Return the run's settings as text, by dotted key."""
        found = experiment.overrides_of(_cell(experiment, self.cell)) | {"seed": str(self.seed)}
        if self.hpa_sync_at_seconds is not None:
            found["hpa_sync_at_seconds"] = f"{self.hpa_sync_at_seconds:g}"
        return found

    def policy(self, experiment: Experiment) -> str | None:
        """Return the run's policy; None: the scenario's own."""
        return _cell(experiment, self.cell).policy


class Schedule(MeasureModel):
    """All runs of one execution, in their order."""

    pairs: int
    order_seed: int
    runs: tuple[PlannedRun, ...]


def draw_schedule(
    experiment: Experiment, *, pairs: int | None = None, has_known_hpa: bool = True
) -> Schedule:
    """Return the runs in their order; runs of a pair follow each other.

    The phases of the HPA's sync are spread evenly over its period, and drawn for the pairs.

    :param pairs: None: as many as the file says.
    :param has_known_hpa: False on a cluster, where the phase cannot be fixed.
    :raises WrongInput: the number of pairs is not allowed, or there are not enough seeds.
    """
    count = experiment.pairs if pairs is None else pairs
    seeds = experiment.seeds or tuple(range(1, count + 1))
    try:
        allowed_pairs(count, experiment.kind)
    except ValueError as error:
        raise _wrong(experiment, "pairs", count, str(error)) from error
    if len(seeds) < count:
        allowed = f"at most {len(seeds)}: the file has no more seeds"
        raise _wrong(experiment, "pairs", count, allowed)
    numbers = range(1, count + 1)
    drawn = experiment.order_seed
    ranks = _shuffled(numbers, drawn, "phase")
    firsts = _shuffled([number % len(experiment.cells) for number in numbers], drawn, "first")
    is_fixed = experiment.phase == "fixed" and has_known_hpa
    runs = []
    for number in _shuffled(numbers, drawn, "pair"):
        phase = HPA_SYNC_SECONDS * (ranks[number - 1] - 0.5) / count if is_fixed else None
        names = [cell.name for cell in experiment.cells]
        first = names[firsts[number - 1]]
        others = _shuffled([name for name in names if name != first], drawn, f"rest {number}")
        runs += [
            PlannedRun(pair=number, cell=name, seed=seeds[number - 1], hpa_sync_at_seconds=phase)
            for name in (first, *others)
        ]
    return Schedule(pairs=count, order_seed=drawn, runs=tuple(runs))


def _shuffled(items: Sequence[Item], seed: int, purpose: str) -> list[Item]:
    """Return ``items`` in an order that seed and purpose determine, on every Python the same."""

    def rank(place: int) -> bytes:
        return hashlib.sha256(f"{seed} {purpose} {place}".encode()).digest()

    return [items[place] for place in sorted(range(len(items)), key=rank)]


def _cell(experiment: Experiment, name: str) -> ExperimentCell:
    return next(cell for cell in experiment.cells if cell.name == name)


def _wrong(experiment: Experiment, field: str, value: object, allowed: str) -> WrongInput:
    where = f"experiment {experiment.name}"
    return WrongInput(where=where, field=field, value=value, allowed=allowed)


MOST_ATTEMPTS = 2

RunVerdict = Literal["pass", "fail", "undetermined"]


class RunRecord(MeasureModel):
    """One run that has ended with a verdict; ``None`` where it is not known."""

    pair: int
    cell: str
    attempt: int  # from 1
    run_id: str
    verdict: RunVerdict
    reasons: tuple[str, ...]
    began_at: int  # unix ns: the run was planned
    ended_at: int  # unix ns: the run was recorded
    hpa_sync_at_seconds: float | None  # second of the stream of the HPA's first sync, as recorded
    is_result: bool | None = None  # of the verdict; None: recorded before this was kept

    @property
    def is_measured(self) -> bool:
        """Return whether the run is a result: pass and fail are, and values close to a limit."""
        return self.verdict != "undetermined" if self.is_result is None else self.is_result


class Execution(MeasureModel):
    """One execution of an experiment: its start, its order, and the file that it plays."""

    experiment: str
    target: str  # embedded, or the cluster's name
    started_by: Literal["command", "dag"]
    started_at: int  # unix ns
    schedule: Schedule


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of an execution."""

    schedule: Schedule
    records: tuple[RunRecord, ...]

    @property
    def missing(self) -> tuple[PlannedRun, ...]:
        """Return the runs without a result that may still get one, in their order."""
        return tuple(run for run in self._open if len(self.attempts(run)) < MOST_ATTEMPTS)

    @property
    def gaps(self) -> tuple[PlannedRun, ...]:
        """Return the runs whose attempts were all undetermined."""
        return tuple(run for run in self._open if len(self.attempts(run)) >= MOST_ATTEMPTS)

    @property
    def _open(self) -> Iterator[PlannedRun]:
        return (run for run in self.schedule.runs if self.measured(run) is None)

    @property
    def is_finished(self) -> bool:
        """Return whether no run is missing."""
        return not self.missing

    @property
    def done(self) -> int:
        """Return how many runs are measured, or are a gap."""
        return len(self.schedule.runs) - len(self.missing)

    def attempts(self, run: PlannedRun) -> tuple[RunRecord, ...]:
        """Return the records of a planned run, oldest first."""
        found = (r for r in self.records if (r.pair, r.cell) == (run.pair, run.cell))
        return tuple(sorted(found, key=lambda record: record.attempt))

    def expected_seconds(self, run: PlannedRun, planned_seconds: float) -> float:
        """Return how long a run takes: as planned, or as the longest of its cell did."""
        own = (r for r in self.records if r.cell == run.cell)
        return max([planned_seconds, *((r.ended_at - r.began_at) / NS_PER_SECOND for r in own)])

    def measured(self, run: PlannedRun) -> RunRecord | None:
        """Return the record that is the run's result; None: there is none yet."""
        return next((r for r in reversed(self.attempts(run)) if r.is_measured), None)
