"""The SLOs on percentiles of the time lag, judged from a recorded run (p95 9.37 s, p99 9.73 s)."""

from __future__ import annotations

import pytest
from tests.fakes.tampered_run import SECOND, TamperedRun, slo

P95, P99 = "time_lag_p95_seconds", "time_lag_p99_seconds"


@pytest.mark.parametrize(
    ("limit", "of_p95", "of_p99"),
    [(9.3, "fail", "fail"), (9.5, "pass", "fail"), (9.8, "pass", "pass")],
)
def test_each_percentile_is_judged_by_itself(
    run: TamperedRun, limit: float, of_p95: str, of_p99: str
) -> None:
    """A limit between both holds for 95 % of the messages and not for 99 %."""
    run.set_slos(**{P95: limit, P99: limit})

    verdict = run.judge()

    assert (slo(verdict, P95).status, slo(verdict, P99).status) == (of_p95, of_p99)
    assert verdict.status == of_p99
    assert slo(verdict, P95).value == pytest.approx(9.371884649)
    assert slo(verdict, P95).threshold == f"at most {limit:g} s"


@pytest.mark.parametrize("name", [P95, P99])
@pytest.mark.parametrize(
    ("gone", "fidelity", "limit", "status"),
    [
        (True, "processes", 300, "undetermined"),  # a folder without that percentile
        (True, "processes", None, "not_judged"),  # what nobody asked for decides nothing
        # The pods stamp what they have done: without a bound of their clocks it is not known.
        (False, "kubernetes", 300, "undetermined"),
    ],
)
def test_a_percentile_that_is_not_known_passes_nothing(
    run: TamperedRun, name: str, *, gone: bool, fidelity: str, limit: int | None, status: str
) -> None:
    """With a limit the run is undetermined, without one it passes."""
    found = run.folder.read_json("accounting.json")["time_lag_seconds"]
    rank = name.split("_")[2]
    if gone:
        run.set_accounting(time_lag_seconds={k: v for k, v in found.items() if k != rank})
    run.edit_json("manifest.json", lambda manifest: {**manifest, "fidelity": fidelity})
    run.set_slos(**{name: limit})

    verdict = run.judge()

    assert slo(verdict, name).status == status
    assert verdict.status == ("pass" if limit is None else "undetermined")


def cluster_with_bounds(
    run: TamperedRun, *, pods_seconds: float, producer: bool, nodes: int = 2
) -> None:
    """Let the run be a cluster's: the pods' clocks are known to so much, the producer's to 1 s."""
    run.edit_json("manifest.json", lambda found: {**found, "fidelity": "kubernetes"})
    sent = run.records("stream_started")[0]["source"]
    bounds = {"node-a": (pods_seconds, list(run.folder.read_json("accounting.json")["by_pod"]))}
    if producer and nodes == 1:
        bounds["node-a"][1].append(sent)
    elif producer:
        bounds["node-b"] = (1.0, [sent])
    for clock, (seconds, pods) in bounds.items():
        run.add_records(
            {
                "kind": "clock_offset",
                "at": run.at(5),
                "source": run.records("replica_sample")[0]["source"],
                "clock": clock,
                "pods": pods,
                "low_ns": -round(seconds * SECOND),
                "high_ns": round(seconds * SECOND),
                "answers": 30,
                "since_at": run.at(-5),
            }
        )


@pytest.mark.parametrize(
    ("limit", "status"),
    [(6.3, "fail"), (6.4, "undetermined"), (12.3, "undetermined"), (12.4, "pass")],
)
def test_a_percentile_is_judged_with_the_bounds_of_both_clocks(
    run: TamperedRun, limit: float, status: str
) -> None:
    """9.37 s: the pods' clocks are known to 2 s and the producer's to 1 s, so 6.37 to 12.37 s."""
    cluster_with_bounds(run, pods_seconds=2, producer=True)
    run.set_slos(**{P95: limit})

    assert slo(run.judge(), P95).status == status


def test_a_producer_whose_clock_is_not_bounded_leaves_the_time_lag_open(run: TamperedRun) -> None:
    """It planned the messages, so no bound of the pods' clocks is enough."""
    cluster_with_bounds(run, pods_seconds=0.001, producer=False)
    run.set_slos(**{P95: 300})

    found = slo(run.judge(), P95)

    assert found.status == "undetermined"
    assert "the producer" in found.reason


def test_on_one_clock_the_difference_of_two_stamps_is_exact(run: TamperedRun) -> None:
    """On the embedded bench, and where both are of one node's clock, whatever its offset is."""
    found = run.measure().lag
    assert found.clock_error_seconds == 0
    assert found.time_lag_interval(12.5) == (12.5, 12.5)

    cluster_with_bounds(run, pods_seconds=2, producer=True, nodes=1)
    assert run.measure().lag.clock_error_seconds == 0


@pytest.mark.parametrize(("share", "status"), [(0.3, "fail"), (0.01, "pass")])
def test_a_run_that_lost_messages_kept_its_time_lag_only_if_few_are_missing(
    run: TamperedRun, share: float, status: str
) -> None:
    """Lost messages of the planned window are counted by their sequence numbers."""
    planned = run.measure().lag.never_done
    assert planned is not None
    assert planned.at_most == 0
    lost = round(share * planned.planned)
    nothing = dict.fromkeys(("entity_id", "pod", "other_pod", "at", "cause_at", "cause_pod"))
    rows = [
        {**nothing, "class": "lost", "partition": 0, "offset": n, "seq": n, "cause": "none"}
        for n in range(lost)
    ]
    run.write_rows("bad_messages", [{**row, "detail": "never processed"} for row in rows])
    run.set_accounting(lost=lost)
    run.set_slos(**{P95: 300, "lost": None})

    found = slo(run.judge(), P95)

    assert found.status == status
    assert f"{lost:,} of {planned.planned:,} messages" in found.reason
