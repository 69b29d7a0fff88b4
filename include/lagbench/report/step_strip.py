"""Draw the scale steps of a run: each dip with its precision, beside the limit."""

from __future__ import annotations

from markupsafe import Markup

from lagbench.core.compare.experiment import ExpectedValue
from lagbench.core.compare.experiment_figure import Panel, drawn, step_marks
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.verdict.verdict import Verdict

_DIP = "rebalance_dip_percent"
_ROWS = {"steps up": "scale_up_dip_percent", "steps down": "scale_down_dip_percent"}


def step_strip(measures: Measures, verdict: Verdict) -> Markup | None:
    """Return the SVG; None: no step was measured."""
    limit = next((slo.limit for slo in verdict.slos if slo.name == _DIP), None)
    claim = None if limit is None else ExpectedValue(at_most=limit)
    rows = {}
    for row, name in _ROWS.items():
        read = NAMED[name].steps
        rows[row] = list(step_marks(_DIP, read(measures) if read else (), claim, row))
    if not any(rows.values()):
        return None
    limits = () if claim is None else claim.numbers
    panel = Panel(_DIP, rows, limits, is_of_steps=True)
    return Markup(drawn("The dip of each scale step", [panel]))  # noqa: S704 - it escapes
