"""Judge SLOs on measures."""

from lagbench.core.verdict.slo import CLAIM, SECOND_GROUP_PREFIX, SloResult, slo_of
from lagbench.core.verdict.verdict import Verdict, exit_code, judge, with_second_group

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
