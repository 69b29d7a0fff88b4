"""The verdict: SLOs x measures to pass, fail or undetermined, each with its reason."""

from __future__ import annotations

from typing import Literal

from lagbench.core.measure_model import MeasureModel
from lagbench.errors import ExitCode

SloStatus = Literal["pass", "fail", "undetermined", "not_judged"]
VerdictStatus = Literal["pass", "fail", "undetermined"]


class SloResult(MeasureModel):
    """One SLO, what was measured, and why it stands or falls."""

    name: str  # the field of ``scenario.slos``
    title: str
    threshold: str  # in words, with its unit
    value: float | None
    unit: str
    status: SloStatus
    reason: str


class Verdict(MeasureModel):
    """The whole run's verdict; ``reasons`` are those that decided it."""

    run_id: str
    status: VerdictStatus
    reasons: tuple[str, ...]
    slos: tuple[SloResult, ...]


def exit_code(verdict: Verdict) -> ExitCode:
    """Return what the command line answers for ``verdict``."""
    return {
        "pass": ExitCode.PASS,
        "fail": ExitCode.SLO_FAILED,
        "undetermined": ExitCode.UNDETERMINED,
    }[verdict.status]
