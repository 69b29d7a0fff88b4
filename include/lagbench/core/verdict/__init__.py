"""Judge SLOs on measures."""

from lagbench.core.verdict.second_group import with_second_group
from lagbench.core.verdict.slo import SECOND_GROUP_PREFIX
from lagbench.core.verdict.verdict import SloResult, Verdict, judge

__all__ = [
    "SECOND_GROUP_PREFIX",
    "SloResult",
    "Verdict",
    "judge",
    "with_second_group",
]
