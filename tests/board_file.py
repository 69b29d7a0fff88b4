"""The committed board: its queries, and the metrics that they name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lagbench.grafana.model import Board
from lagbench.project import PROJECT_ROOT

BOARD_FILE = PROJECT_ROOT / "include" / "grafana" / "lagbench.json"

_SELECTED = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{")
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_FROM_KEDA = "keda_"


@dataclass(frozen=True, slots=True)
class BoardQuery:
    """One query of a panel or an annotation."""

    where: str
    expr: str
    legend: str

    @property
    def metrics(self) -> set[str]:
        """The names of the series that it selects."""
        return set(_SELECTED.findall(self.expr))

    @property
    def legend_labels(self) -> set[str]:
        """The labels that the names of its results are made of."""
        return set(_PLACEHOLDER.findall(self.legend))

    @property
    def is_of_keda(self) -> bool:
        """Whether it asks for what only KEDA tells."""
        return all(name.startswith(_FROM_KEDA) for name in self.metrics)


def committed_board() -> Board:
    """Return the committed file; an unknown field is an error."""
    return Board.model_validate_json(BOARD_FILE.read_text(encoding="utf-8"))


def board_queries() -> Sequence[BoardQuery]:
    """Return every query of the committed board."""
    board = committed_board()
    of_panels = [
        BoardQuery(f"{panel.title} {target.ref_id}", target.expr, target.legend_format)
        for panel in board.panels
        for target in panel.targets or ()
    ]
    of_annotations = [
        BoardQuery(f"annotation {note.name}", note.expr, note.title_format)
        for note in board.annotations.list
    ]
    return [*of_panels, *of_annotations]
