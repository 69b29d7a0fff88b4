"""Judge an experiment by its pairs, and show the result."""

from lagbench.core.experiment.result.experiment_result import ExperimentResult
from lagbench.core.experiment.result.figure import as_figure
from lagbench.core.experiment.result.judge import (
    decidability_note,
    judge_experiment,
    measured_names,
    pairs_of,
)
from lagbench.core.experiment.result.markdown import (
    HEADINGS,
    SHOWN_HEADINGS,
    as_markdown,
    difference_row,
    in_order,
    not_measured,
    shown_row,
    tested,
)
from lagbench.core.experiment.result.predicted import (
    PREDICTED_HEADINGS,
    not_simulated,
    predicted_values,
)

__all__ = [
    "HEADINGS",
    "PREDICTED_HEADINGS",
    "SHOWN_HEADINGS",
    "ExperimentResult",
    "as_figure",
    "as_markdown",
    "decidability_note",
    "difference_row",
    "in_order",
    "judge_experiment",
    "measured_names",
    "not_measured",
    "not_simulated",
    "pairs_of",
    "predicted_values",
    "shown_row",
    "tested",
]
