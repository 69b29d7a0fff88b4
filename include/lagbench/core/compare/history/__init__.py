"""The history of runs, and where a cell changed."""

from lagbench.core.compare.history.change_points import CellHistory, by_cell, cell_history
from lagbench.core.compare.history.history_row import HistoryRow, flat_manifest

__all__ = ["CellHistory", "HistoryRow", "by_cell", "cell_history", "flat_manifest"]
