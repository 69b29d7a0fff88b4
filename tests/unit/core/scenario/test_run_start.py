"""The id of a run and the names made from it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lagbench.core.scenario.run_names import RunNames, new_run_id
from lagbench.core.scenario.scenario import ConsumerSettings, Scenario
from lagbench.core.scenario.stream_start import (
    DEFAULT_START_SECONDS,
    StartDelay,
    phase_distance_seconds,
    require_known_hpa,
    start_delay,
    stream_start_at_ns,
)
from lagbench.errors import WrongInput

AT = datetime(2026, 11, 21, 22, 5, 9, tzinfo=UTC)


def test_an_id_says_what_and_when() -> None:
    """The id is the scenario, the UTC instant and the digits that make it unique."""
    run_id = new_run_id("quick_spike", planned_at=AT, unique_digits="0a1b")

    assert run_id == "quick-spike-20261121-220509-0a1b"


@pytest.mark.parametrize("name", ["a" * 27 + "_b", "a" * 40, "a_", "a" * 26 + "__b"])
def test_every_scenario_gets_an_id_that_kubernetes_takes(name: str) -> None:
    """A name that is cut behind a word leaves no second dash before the instant."""
    run_id = new_run_id(name, planned_at=AT, unique_digits="0a1b")

    assert "--" not in run_id
    assert RunNames(run_id).run_id == run_id


def test_a_pod_has_the_same_delay_in_every_run_of_a_seed() -> None:
    """The delay follows from mean, seed and the pod's number, and from nothing else."""
    drawn = [StartDelay(1.2, seed=7).of_pod(number) for number in range(40)]

    assert drawn == [StartDelay(1.2, seed=7).of_pod(number) for number in range(40)]
    assert drawn != [StartDelay(1.2, seed=8).of_pod(number) for number in range(40)]
    assert len(set(drawn)) == 40


def test_delays_lie_around_their_mean() -> None:
    """They fill the mean +- a quarter of it evenly."""
    drawn = [StartDelay(2.0, seed=3).of_pod(number) for number in range(4000)]

    assert 1.5 <= min(drawn) < 1.51
    assert 2.49 < max(drawn) <= 2.5
    assert abs(sum(drawn) / len(drawn) - 2.0) < 0.02


def test_a_cluster_delays_only_when_it_is_asked_to() -> None:
    """On the embedded bench 1.2 s by default; elsewhere pods take what they take."""
    asked = ConsumerSettings(start_seconds=20)

    assert start_delay(ConsumerSettings(), 1, is_embedded=False) is None
    assert start_delay(ConsumerSettings(), 1, is_embedded=True) == StartDelay(1.2, 1)
    assert DEFAULT_START_SECONDS == 1.2
    assert start_delay(asked, 1, is_embedded=False) == StartDelay(20, 1)
    assert start_delay(ConsumerSettings(start_seconds=0), 1, is_embedded=True) == StartDelay(0, 1)


NS = 1_000_000_000

DATA = {
    "name": "s",
    "description": "d",
    "partitions": 1,
    "profile": {"kind": "steady", "rate_per_second": 1, "duration_seconds": 1},
    "policy": "lag-quick",
}


@pytest.mark.parametrize(
    ("sync_at", "phase", "earliest", "expected"),
    [
        (100, 5, 90, 95),
        (100, 5, 95, 95),
        (100, 5, 96, 110),
        (100, 0, 131, 145),
        (100, 14.5, 0, 10.5),
    ],
)
def test_the_stream_starts_a_phase_before_a_sync(
    sync_at: float, phase: float, earliest: float, expected: float
) -> None:
    """The first instant from the earliest on has a sync, one of each 15 s, that much after it."""
    found = stream_start_at_ns(
        sync_at_ns=round(sync_at * NS), phase_seconds=phase, earliest_ns=round(earliest * NS)
    )

    assert found == round(expected * NS)


def test_phases_lie_on_a_circle() -> None:
    """A sync 0.1 s before the stream's start is 0.2 s from one 0.1 s after it."""
    assert phase_distance_seconds(14.9, 0.1) == pytest.approx(0.2)
    assert phase_distance_seconds(2.0, 9.5) == 7.5


def test_a_cluster_does_not_report_its_syncs() -> None:
    """A fixed phase is rejected there, and no phase is allowed anywhere."""
    free = Scenario.model_validate(DATA)
    fixed = Scenario.model_validate({**DATA, "hpa_sync_at_seconds": 7.5})

    require_known_hpa(free, is_embedded=False)
    require_known_hpa(fixed, is_embedded=True)
    with pytest.raises(WrongInput) as refused:
        require_known_hpa(fixed, is_embedded=False)

    assert (refused.value.field, refused.value.value) == ("hpa_sync_at_seconds", 7.5)
