"""Define an experiment: a question, and the cells whose difference answers it.

The unit of comparison is the pair: one run of each cell with the same seed, back to back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lagbench.core.experiment.expected_value import ExpectedValue
from lagbench.core.scenario.scenario import MAX_SEED
from lagbench.core.significance import PLANNED_LOOKS, SIGNIFICANCE, floor_of

MOST_SHOWN_PAIRS = 12
"""An identity experiment tests nothing: one pair can show it."""
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
    if pairs in PLANNED_LOOKS:
        return pairs
    reason = "that are the planned numbers of pairs"
    if floor_of(pairs) > SIGNIFICANCE:
        reason = f"the smallest p of {pairs} pairs is {floor_of(pairs):g}, above {SIGNIFICANCE:g}"
    raise ValueError(f"6, 8 or 12 ({reason})")


class ExperimentCell(_Model):
    """One side of the comparison: a policy and settings on the experiment's scenario."""

    name: str = Field(pattern=CELL_NAME)
    policy: str | None = Field(None, min_length=1, description="None: the scenario's own")
    overrides: Mapping[str, Setting] = Field({}, description="dotted setting to value")
    expects: Expectation = Field(
        "pass", description="the verdict that this cell is meant to have; both are results"
    )
    shows: Mapping[str, ExpectedValue] = Field(
        {}, description="measures, and what each must be in every run of the cell"
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
        max_length=6,
        description="the others are compared with the first",
        strict=False,
    )
    pairs: int
    hours: float = Field(gt=0, le=1000, description="expected duration of all pairs")
    seeds: tuple[Annotated[int, Field(ge=0, le=MAX_SEED)], ...] = Field(
        (), description="of the pairs, in their order; without any 1, 2, 3 …", strict=False
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

    @model_validator(mode="after")
    def _is_consistent(self) -> Experiment:
        try:
            allowed_pairs(self.pairs, self.kind)
        except ValueError as error:
            raise ValueError(f"pairs must be {error}") from error
        self._require_what_the_kind_needs()
        names = [cell.name for cell in self.cells]
        if len(set(names)) < len(names):
            raise ValueError(f"cells must be of different names (they are {', '.join(names)})")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds must be all different: a seed twice is not another pair")
        if self.seeds and len(self.seeds) < self.pairs:
            raise ValueError(f"seeds must be at least {self.pairs}, one for each pair")
        return self

    def _require_what_the_kind_needs(self) -> None:
        if self.kind == "difference":
            if len(self.cells) < 2:
                raise ValueError("cells must be two to six (a difference has two sides)")
            return
        if self.bounds:
            raise ValueError("bounds must be absent: kind identity tests no difference")
        if not any(cell.shows for cell in self.cells):
            raise ValueError("cells must be one to six, and one of them has shows (kind identity)")

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
        return {key: _text(value) for key, value in {**self.overrides, **cell.overrides}.items()}


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
