"""What actions on the broker excuse, and the same disturbance without them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from lagbench.core.measures.doubts.doubt import Window
from lagbench.core.measures.doubts.group import empty_group
from lagbench.core.measures.doubts.load import late_at_the_client
from lagbench.core.measures.evidence.actions import Hidden, played_actions
from lagbench.core.measures.evidence.group_strangers import group_gaps
from lagbench.core.measures.evidence.load_window import LoadWindow
from lagbench.core.measures.evidence.series import BIN_NS, RateSeries
from lagbench.core.scenario.actions import BrokerRestart, BrokerUnreachable, SlowDownstream
from lagbench.core.scenario.profiles import SteadyProfile
from lagbench.core.scenario.stream.profile import offered_load
from lagbench.core.telemetry.actions import ActionEnded, ActionStarted
from lagbench.core.telemetry.producer import ProducerProgress
from lagbench.core.telemetry.recorder import GroupMembers, GroupSample
from lagbench.core.telemetry.records import TelemetryRecord

SECOND = 1_000_000_000
LOAD = offered_load(SteadyProfile(kind="steady", rate_per_second=2000, duration_seconds=300))
WINDOW = LoadWindow(
    stream_started_at=0,
    first_spike_started_at=None,
    last_spike_ended_at=None,
    spikes=0,
    stream_ended_at=300 * SECOND,
    base_rate_per_second=2000,
    spike_rate_per_second=None,
)
ACTIONS = {
    "broker_restart": BrokerRestart(kind="broker_restart", at_seconds=100, for_seconds=10),
    "broker_unreachable": BrokerUnreachable(
        kind="broker_unreachable", at_seconds=100, for_seconds=10
    ),
    "slow_downstream": SlowDownstream(
        kind="slow_downstream", at_seconds=100, for_seconds=10, factor=3
    ),
}


def hidden_by(kind: str) -> Hidden:
    """Return what an action hides that was played from second 100 to 115."""
    stamps: list[TelemetryRecord] = [
        ActionStarted(
            at=100 * SECOND,
            source="actions",
            number=0,
            action=kind,
            targets=["a"],
            planned_at=100 * SECOND,
        ),
        ActionEnded(at=115 * SECOND, source="actions", number=0, action=kind),
    ]
    return Hidden(played_actions(stamps, [ACTIONS[kind]], stream_started_at=0))


def progress(held: dict[int, int]) -> list[TelemetryRecord]:
    """Return a report each second with what waits in the producer's client."""
    return [
        ProducerProgress(
            at=second * SECOND,
            source="producer",
            planned=2000 * second,
            sent=2000 * second,
            acked=2000 * second - held.get(second, 0),
            failed=0,
            lateness_p50_ms=None,
            lateness_p99_ms=None,
            lateness_max_ms=None,
        )
        for second in range(1, 301)
    ]


@pytest.mark.parametrize(
    ("kind", "second", "is_excused"),
    [
        ("broker_restart", 110, True),
        ("broker_restart", 170, True),  # the client sends what it held
        ("broker_restart", 90, False),
        ("broker_restart", 180, False),
        ("broker_unreachable", 110, False),  # the producer is on another listener
        ("slow_downstream", 110, False),
    ],
)
def test_only_a_restart_excuses_what_the_producer_holds_back(
    kind: str, second: int, is_excused: bool
) -> None:
    """Inside of its window, and no other kind; without an action the run is invalid."""
    records = progress({second: 9000})

    def doubts(hidden: Hidden) -> list[str]:
        run = SimpleNamespace(records=records, offered=LOAD, load=WINDOW, hidden=hidden)
        return list(late_at_the_client(run, None))  # type: ignore[arg-type]

    assert doubts(Hidden())
    assert (not doubts(hidden_by(kind))) is is_excused


@pytest.mark.parametrize(
    ("kind", "from_second", "is_excused"),
    [
        ("broker_restart", 101, True),
        ("broker_unreachable", 101, True),
        ("slow_downstream", 101, False),
        ("broker_unreachable", 200, False),
    ],
)
def test_a_group_whose_members_were_cut_off_is_no_contradiction(
    kind: str, from_second: int, is_excused: bool
) -> None:
    """Pods finish what they had fetched after the broker has removed them."""
    rate = RateSeries(0, np.full(3000, 200), np.full(3000, 200))
    records: list[TelemetryRecord] = [
        GroupSample(
            at=second * SECOND,
            source="recorder",
            state="Stable",
            members=0 if from_second <= second < from_second + 30 else 4,
            members_without_partitions=0,
        )
        for second in range(1, 300)
    ]
    assert rate.bin_of(BIN_NS) == 1

    def doubts(hidden: Hidden) -> list[str]:
        scenario = SimpleNamespace(consumer=SimpleNamespace(kind="stand-in"))
        run = SimpleNamespace(records=records, rate=rate, scenario=scenario, hidden=hidden)
        return list(empty_group(run, Window(0, 300 * SECOND, ())))  # type: ignore[arg-type]

    assert doubts(Hidden())
    assert (not doubts(hidden_by(kind))) is is_excused


@pytest.mark.parametrize(
    ("kind", "last_before", "is_excused"),
    [
        ("broker_restart", 99, True),  # the last reading is from before the action
        ("broker_restart", 96, False),
        ("broker_unreachable", 99, False),  # the recorder still reaches the broker
    ],
)
def test_only_a_restart_excuses_readings_of_the_group(
    kind: str, last_before: int, is_excused: bool
) -> None:
    """The gap must lie in the action's window as a whole."""
    records: list[TelemetryRecord] = [
        GroupMembers(at=second * SECOND, source="recorder", members=[])
        for second in range(1, 300)
        if not last_before < second < 130
    ]

    def gaps(hidden: Hidden) -> int:
        return len(group_gaps(records, from_at=0, until_at=300 * SECOND, hidden=hidden))

    assert gaps(Hidden()) == 1
    assert (gaps(hidden_by(kind)) == 0) is is_excused
