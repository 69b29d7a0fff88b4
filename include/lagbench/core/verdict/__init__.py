"""Judge SLOs on measures."""

from lagbench.core.verdict.verdict import SloResult, Verdict, judge

__all__ = [
    "SloResult",
    "Verdict",
    "judge",
]
