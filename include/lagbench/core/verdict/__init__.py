"""Judge SLOs on measures."""

from lagbench.core.verdict.second_group import with_second_group
from lagbench.core.verdict.slo import CLAIM, SECOND_GROUP_PREFIX, slo_of
from lagbench.core.verdict.verdict import SloResult, Verdict, judge

__all__ = [
    "CLAIM",
    "SECOND_GROUP_PREFIX",
    "SloResult",
    "Verdict",
    "judge",
    "slo_of",
    "with_second_group",
]
