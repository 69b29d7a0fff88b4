"""Collect the named measures: each model that is a part of ``Measures`` declares its own.

To add a measure, declare it where it is computed: a field of a model in ``core/measures`` and a
line in that model's ``named``. Nothing is added here. A new model becomes a field of ``Measures``.
SLOs, the nightly gate, the prediction, the simulator, the report and the terminal read this list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, get_args

from lagbench.core.measures.measures import Measures
from lagbench.core.measures.model import MeasureModel, NamedMeasure


def _collected() -> Iterator[NamedMeasure[Measures]]:
    for part, field in Measures.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, MeasureModel):
                yield from (_of_run(part, measure) for measure in kind.named)


def _of_run(part: str, measure: NamedMeasure[Any]) -> NamedMeasure[Measures]:
    """Return a part's measure as one that is read from a whole run."""
    interval = None if measure.interval is None else _within(part, measure.interval)
    return replace(measure, read=_within(part, measure.read), interval=interval, part=part)


def _within(part: str, read: Callable[[Any], Any]) -> Callable[[Measures], Any]:
    """Return ``read`` on the field ``part``; a run without that part gives None."""

    def of_run(measures: Measures) -> Any:
        found = getattr(measures, part)
        return None if found is None else read(found)

    return of_run


NAMED = {measure.name: measure for measure in _collected()}
"""The measures of one run, by name."""
