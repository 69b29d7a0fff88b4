"""The SLOs on percentiles of the time lag, judged from a recorded run (p95 12.3 s, p99 12.8 s)."""

from __future__ import annotations

import pytest
from tests.fakes.tampered_run import TamperedRun, slo

P95, P99 = "time_lag_p95_seconds", "time_lag_p99_seconds"


@pytest.mark.parametrize(
    ("limit", "of_p95", "of_p99"),
    [(12.0, "fail", "fail"), (12.5, "pass", "fail"), (13.0, "pass", "pass")],
)
def test_each_percentile_is_judged_by_itself(
    run: TamperedRun, limit: float, of_p95: str, of_p99: str
) -> None:
    """A limit between both holds for 95 % of the messages and not for 99 %."""
    run.set_slos(**{P95: limit, P99: limit})

    verdict = run.judge()

    assert (slo(verdict, P95).status, slo(verdict, P99).status) == (of_p95, of_p99)
    assert verdict.status == of_p99
    assert slo(verdict, P95).value == pytest.approx(12.33555495)
    assert slo(verdict, P95).threshold == f"at most {limit:g} s"


@pytest.mark.parametrize("name", [P95, P99])
def test_a_percentile_that_was_not_recorded_is_undetermined(run: TamperedRun, name: str) -> None:
    """A folder without that percentile leaves its SLO open, and with it the run."""
    found = run.folder.read_json("accounting.json")["time_lag_seconds"]
    rank = name.split("_")[2]
    run.set_accounting(time_lag_seconds={k: v for k, v in found.items() if k != rank})
    run.set_slos(**{name: 300})

    verdict = run.judge()

    assert verdict.status == slo(verdict, name).status == "undetermined"
    assert slo(verdict, name).reason == "the time lag was not measured"


@pytest.mark.parametrize("name", [P95, P99])
def test_a_missing_percentile_without_a_limit_leaves_the_verdict(
    run: TamperedRun, name: str
) -> None:
    """What nobody asked for decides nothing."""
    found = run.folder.read_json("accounting.json")["time_lag_seconds"]
    run.set_accounting(time_lag_seconds={**found, name.split("_")[2]: None})

    verdict = run.judge()

    assert (verdict.status, slo(verdict, name).status) == ("pass", "not_judged")


@pytest.mark.parametrize("name", [P95, P99])
def test_a_percentile_by_clocks_that_nobody_bounded_is_undetermined(
    run: TamperedRun, name: str
) -> None:
    """The pods stamp what they have done: without a bound of their clocks nothing is decided."""
    run.edit_json("manifest.json", lambda found: {**found, "fidelity": "kubernetes"})
    run.set_slos(**{name: 300})

    assert slo(run.judge(), name).status == "undetermined"
