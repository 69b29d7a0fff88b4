"""Judge SLOs on measures."""

from lagbench.core.verdict.second_group import with_second_group
from lagbench.core.verdict.slo import CLAIM, SECOND_GROUP_PREFIX, slo_of
from lagbench.core.verdict.verdict import SloResult, Verdict, exit_code, judge

__all__ = [
    "CLAIM",
    "SECOND_GROUP_PREFIX",
    "SloResult",
    "Verdict",
    "exit_code",
    "judge",
    "slo_of",
    "with_second_group",
]
