"""The whole loop on a virtual clock: when it acts, on what, and that it acts the same again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.fakes import policies
from tests.fakes.measured_run import quick_spike_measures
from tests.fakes.policies import behavior

from lagbench.catalog.catalog import checked_cell
from lagbench.core.policy.policy import Policy, check_policy
from lagbench.core.scenario.profiles import (
    BurstyProfile,
    Stage,
    StagesProfile,
    SteadyProfile,
    StepProfile,
)
from lagbench.core.scenario.scenario import ConsumerSettings, Keys, Scenario
from lagbench.core.simulation.prediction import (
    PHASES,
    Prediction,
    expected_run_seconds,
    predict,
    residuals,
)
from lagbench.core.simulation.simulate import simulate
from lagbench.core.simulation.simulated_world import SimulatedEnvironment
from lagbench.core.simulation.simulation_measures import Simulation

EVEN = Keys(entities=100_000, zipf_s=0)

SPIKE = StepProfile(
    kind="step",
    rate_per_second=600,
    spike_mult=10,
    before_seconds=15,
    spike_hold_seconds=60,
    after_seconds=10,
)

KAFKA = policies.kafka()
CONSUMERS = {**policies.TARGET, "name": "consumer"}
GROUP = {"bootstrapServers": "kafka:9092", "topic": "events", "consumerGroup": "enrich"}


def scenario(profile: Any = SPIKE, **changes: Any) -> Scenario:
    """Return a scenario of 12 partitions and pods of 500/s."""
    return Scenario(
        name="tried",
        description="for a test",
        partitions=12,
        keys=EVEN,
        profile=profile,
        consumer=ConsumerSettings(process_ms=2),
        policy="tried",
        **changes,
    )


def policy(*triggers: dict[str, Any], **spec: Any) -> Policy:
    """Return a checked ScaledObject with these triggers."""
    given = [
        {**item, "metadata": {**({} if item["type"] == "cron" else GROUP), **item["metadata"]}}
        for item in triggers or (KAFKA,)
    ]
    rest = {"scaleTargetRef": {"name": "consumer"}, "advanced": None, **spec}
    return check_policy(policies.scaled_object(triggers=given, **rest), where="tried")


def counts(cell: Simulation) -> list[int]:
    """Return the wanted replicas without repeats."""
    found: list[int] = []
    for replicas in cell.timeline.spec_replicas.tolist():
        if not found or found[-1] != replicas:
            found.append(replicas)
    return found


def first_rise(cell: Simulation) -> float:
    """Return the second at which more replicas were first wanted."""
    line = cell.timeline
    return float(line.second[line.spec_replicas > line.spec_replicas[0]][0])


def test_without_behavior_replicas_at_most_double_and_leave_after_five_minutes() -> None:
    """2 -> 4 -> 8 -> 12, and back in one step more than 300 s after the last sync that asked."""
    cell = simulate(scenario(), policy(), environment=SimulatedEnvironment(hpa_sync_at_seconds=20))

    line = cell.timeline
    asked = line.second[line.wish > 11][-1]
    left = line.second[(line.spec_replicas == 2) & (line.second > asked)][0]
    assert counts(cell) == [2, 4, 8, 12, 2]
    assert 300 < left - asked < 300 + 2 * 15.1
    assert first_rise(cell) == pytest.approx(20)


def test_the_same_seed_gives_the_same_simulation_and_another_one_other_phases() -> None:
    """Everything random comes from the seed."""
    first, again, other = (simulate(scenario(), policy(), seed=seed) for seed in (3, 3, 4))

    assert first.to_json() == again.to_json()
    assert first_rise(first) != pytest.approx(first_rise(other))


def test_policies_on_one_seed_meet_the_same_clocks() -> None:
    """Differences between two policies are theirs, not those of drawn phases."""
    window = behavior(scaleUp={"stabilizationWindowSeconds": 30})
    plain = simulate(scenario(), policy(), seed=5)
    held = simulate(scenario(), policy(advanced=window), seed=5)

    assert plain.timeline.second[:5].tolist() == held.timeline.second[:5].tolist()


def test_a_lag_that_must_persist_is_answered_when_it_has() -> None:
    """With a sustain time of 30 s the first rise comes within a sample and a sync after it."""
    sustained = {
        "type": "external",
        "metadata": {
            "scalerAddress": "s:6000",
            "lagThreshold": "500",
            "sustainSeconds": "30",
            "samplingInterval": "5",
            "windowSize": "20",
            "offsetResetPolicy": "earliest",
        },
    }
    cell = simulate(scenario(), policy(sustained), seed=2)

    # 15 s: the step; 1.2 s later every partition holds 500; half an interval is tolerated.
    assert 15 + 1.2 + 27.5 <= first_rise(cell) <= 15 + 1.2 + 30 + 5 + 15.1
    assert cell.measures.max_replicas == 12


def test_bursts_shorter_than_the_sustain_time_add_nothing() -> None:
    """10 s of twice the capacity leave a lag for 33 s: below a sustain time of 60 s."""
    bursts = BurstyProfile(
        kind="bursty",
        rate_per_second=400,
        spike_mult=5,
        quiet_seconds=60,
        spike_hold_seconds=10,
        bursts=3,
    )
    metadata = {"scalerAddress": "s:6000", "sustainSeconds": "60", "offsetResetPolicy": "earliest"}
    cell = simulate(scenario(bursts), policy({"type": "external", "metadata": metadata}))

    assert cell.measures.replica_changes == 0
    assert cell.measures.reaction_seconds is None
    assert cell.measures.peak_lag_records == pytest.approx(
        10_000, rel=0.05
    )  # with uncommitted work


def test_noise_flaps_by_itself_and_a_sawtooth_by_the_load() -> None:
    """A threshold far below a pod's rate times the sync: every flip under noise is self-made."""
    down = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    eager = policy(KAFKA, advanced=behavior(**down))
    noise = StagesProfile(
        kind="stages",
        stages=tuple(
            Stage(seconds=20, rate_per_second=rate, is_spike=False)
            for rate in (700, 1300, 600, 1250, 700, 1350, 650, 1300, 600)
        ),
    )
    sawtooth = BurstyProfile(
        kind="bursty",
        rate_per_second=600,
        spike_mult=8,
        quiet_seconds=60,
        spike_hold_seconds=30,
        bursts=3,
    )

    of_noise = simulate(scenario(noise), eager, seed=1).measures
    of_load = simulate(scenario(sawtooth), eager, seed=1).measures

    assert of_noise.self_made_flips == of_noise.flips > 0
    assert of_load.flips > 0
    assert of_load.self_made_flips == 0


def test_the_next_sync_is_due_a_period_after_the_work_of_one() -> None:
    """Of a sync that scales, too, which takes longer."""
    around = SimulatedEnvironment(hpa_sync_seconds=15.5, hpa_scale_seconds=0.25)
    line = simulate(scenario(), policy(), environment=around).timeline
    has_scaled = np.diff(line.spec_replicas)[:-1] != 0

    assert has_scaled.any()
    assert np.diff(line.second)[1:] == pytest.approx(15.5 + 0.25 * has_scaled)


def test_pod_minutes_are_of_the_planned_window() -> None:
    """A longer look at the tail costs nothing in the planned window, as in a run."""
    short, long = (
        simulate(scenario(), policy(), environment=SimulatedEnvironment(tail_seconds=seconds))
        for seconds in (0, 300)
    )

    assert short.measures.pod_minutes == pytest.approx(long.measures.pod_minutes)
    assert short.measures.pod_minutes == pytest.approx(short.measures.pod_minutes_in_all)
    assert long.measures.pod_minutes_in_all > long.measures.pod_minutes


def test_keda_brings_the_first_pod_and_takes_the_last() -> None:
    """From zero the activation is KEDA's; after the cooldown it goes back to zero."""
    quiet = SteadyProfile(kind="steady", rate_per_second=100, duration_seconds=120)
    around = SimulatedEnvironment(tail_seconds=400)
    to_zero = policy(minReplicaCount=0, pollingInterval=10, cooldownPeriod=60)
    cell = simulate(scenario(quiet), to_zero, environment=around)

    line = cell.timeline
    assert counts(cell) == [0, 1, 0]
    assert 0 < first_rise(cell) <= 10
    gone = float(line.second[(line.spec_replicas == 0) & (line.second > 120)][0])
    assert 120 + 60 - 10 < gone <= 120 + 60 + 2 * 10


def test_a_paused_object_does_nothing() -> None:
    """With paused-replicas the count is set once, whatever the lag."""
    paused = policy(annotations={"autoscaling.keda.sh/paused-replicas": "3"})
    cell = simulate(scenario(), paused)

    assert cell.measures.replica_changes == 0
    assert cell.measures.max_replicas == 3


def test_a_cron_window_raises_the_floor_while_it_is_open() -> None:
    """From minute 1 to 3 five replicas are wanted without any lag."""
    quiet = SteadyProfile(kind="steady", rate_per_second=100, duration_seconds=600)
    window = {"timezone": "UTC", "start": "1 0 * * *", "end": "3 0 * * *", "desiredReplicas": "5"}
    down = behavior(scaleDown={"stabilizationWindowSeconds": 0})
    cell = simulate(
        scenario(quiet), policy(KAFKA, {"type": "cron", "metadata": window}, advanced=down)
    )

    line = cell.timeline
    inside = line.second[line.spec_replicas > 2]
    assert 60 <= inside[0] <= 76
    assert 180 <= inside[-1] + 15.1 <= 196
    assert cell.measures.max_replicas == 5


def on_cpu() -> Policy:
    """Return an HPA on 70 % of the requested CPU."""
    resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    bounds: dict[str, Any] = {"minReplicas": 2, "maxReplicas": 12, "scaleTargetRef": CONSUMERS}
    metrics = [{"type": "Resource", "resource": resource}]
    return check_policy(policies.hpa(metrics=metrics, **bounds), where="tried")


def test_cpu_sees_the_work_that_burns_it_and_not_the_lag() -> None:
    """Consumers that wait use little; at 2 ms of CPU a message the spike asks for all pods."""
    waiting = simulate(scenario(), on_cpu())
    consumer = ConsumerSettings(process_ms=0, cpu_ms=2, cpu_request_millicores=1000)
    burning = simulate(scenario().model_copy(update={"consumer": consumer}), on_cpu())

    assert waiting.measures.replica_changes == 0
    assert waiting.measures.peak_lag_records == pytest.approx(300_000, rel=0.01)
    assert counts(burning)[0] == 2  # 300/s a pod are 600 millicores of 1,000
    assert burning.measures.max_replicas == 12


def test_a_cron_window_in_the_stream_is_open_there_at_any_start() -> None:
    """The annotation places it; the hours of the trigger count on a cluster."""
    hours = {"timezone": "Europe/Berlin", "start": "0 8 * * *", "end": "0 18 * * *"}
    cron = {"type": "cron", "metadata": {**hours, "desiredReplicas": "5"}}
    steady = SteadyProfile(kind="steady", rate_per_second=100, duration_seconds=300)
    placed = policy(cron, annotations={"lagbench.io/cron-windows": "90-210"})
    cell = simulate(
        scenario(steady), placed, environment=SimulatedEnvironment(starts_at_seconds=1_795_423_187)
    )

    line = cell.timeline
    inside = line.second[line.spec_replicas > 2]
    assert 90 <= inside[0] <= 106
    assert cell.measures.max_replicas == 5


def test_a_policy_has_its_own_sync() -> None:
    """A spike comes 10 s before a sync of Kubernetes, and 5 s before one of the policy."""
    around = SimulatedEnvironment(hpa_sync_at_seconds=10.0)
    annotations = {"lagbench.io/hpa-sync-seconds": "5"}

    slow = simulate(scenario(), policy(KAFKA), environment=around)
    quick = simulate(scenario(), policy(KAFKA, annotations=annotations), environment=around)

    assert slow.measures.reaction_seconds == pytest.approx(12.6, abs=1)
    assert quick.measures.reaction_seconds == pytest.approx(7.6, abs=1)


@pytest.mark.parametrize(
    ("kind", "version", "is_early"),
    [
        ("external-push", "1.37", True),
        ("external-push", "1.36", False),
        ("external", "1.37", False),
    ],
)
def test_a_step_of_the_lag_scaler_syncs_the_hpa_of_kubernetes_1_37(
    kind: str, version: str, is_early: bool
) -> None:
    """The spike comes 10 s before a planned sync; samples are a second apart."""
    metadata = {
        "scalerAddress": "s:6000",
        "lagScope": "total",
        "sustainSeconds": "0",
        "samplingInterval": "1",
        "offsetResetPolicy": "earliest",
        "syncOnStep": "true",
    }
    tried = policy(
        {"type": kind, "metadata": metadata}, annotations={"lagbench.io/kubernetes": version}
    )
    around = SimulatedEnvironment(hpa_sync_at_seconds=10.0)
    cell = simulate(scenario(), tried, environment=around)

    assert (first_rise(cell) - 15 < 3) is is_early


def predicted(scenario: str, policy: str | None = None, **overrides: str) -> Prediction:
    """Return the prediction of a catalog scenario."""
    dotted = {key.replace("__", "."): value for key, value in overrides.items()}
    cell = checked_cell(scenario, policy=policy, overrides=dotted)
    return predict(cell.scenario, cell.policy)


def test_the_range_over_the_phases_holds_what_quick_spike_was_measured_at() -> None:
    """Two real runs: peak lag 119,696 and 118,551 messages, drain 95.9 s, reaction 13.3 s."""
    of = predicted("quick_spike").measures
    measured = {
        "peak_lag_records": (118_551, 119_696),
        "drain_seconds": (95.9,),
        "reaction_seconds": (13.3,),
    }

    for name, values in measured.items():
        assert (of[name].low or 0) < min(values)
        assert max(values) < (of[name].high or 0)


def test_the_course_has_the_peak_and_ends_when_all_has_come_down() -> None:
    """It is of one simulated run; its peak is the median of the range."""
    found = predicted("quick_spike")
    course = found.course

    assert course is not None
    assert len(course.lag) == len(course.replicas) <= 301
    assert max(course.lag) == pytest.approx(found.measures["peak_lag_records"].median, rel=0.05)
    assert max(course.replicas) == found.measures["max_replicas"].median
    assert course.lag[0] < max(course.lag) / 100
    assert course.lag[-1] < max(course.lag) / 100
    assert course.replicas[-1] == course.replicas[0]
    assert course.every_seconds * len(course.lag) < found.watched_seconds


def test_a_known_phase_leaves_little_of_the_range() -> None:
    """With the HPA's sync near 9 s the peak is known within a tenth; with any phase it is not.

    A scenario that fixes the phase is predicted as if the run had recorded it.
    """
    cell = checked_cell("quick_spike")
    fixed = checked_cell("quick_spike", overrides={"hpa_sync_at_seconds": "9"})

    found = predict(cell.scenario, cell.policy, hpa_sync_at_seconds=9.0)

    lag = found.measures["peak_lag_records"]
    assert found.hpa_sync_at_seconds == 9.0
    assert (lag.high or 0) - (lag.low or 0) < 10_000
    assert predict(fixed.scenario, fixed.policy) == found


def test_what_no_phase_has_is_missing() -> None:
    """Without a spike there is no reaction and no drain; at a minute a message nothing drains."""
    steady = predicted("steady").measures
    stuck = predicted("quick_spike", consumer__process_ms="60000").measures["drain_seconds"]

    for found in (steady["reaction_seconds"], steady["drain_seconds"], stuck):
        assert (found.median, found.missing) == (None, PHASES)
    assert steady["max_replicas"].high == 2


def test_a_residual_is_measured_minus_predicted() -> None:
    """Against the median; what was not measured has none."""
    found = {row.name: row for row in residuals(predicted("quick_spike"), quick_spike_measures())}

    for row in found.values():
        if row.measured is None or row.predicted.median is None:
            assert row.residual is None
        else:
            assert row.residual == pytest.approx(row.measured - row.predicted.median)


def test_a_long_drain_is_watched_to_its_end() -> None:
    """A run that waits two hours for its drain has a prediction of it."""
    short = predicted("lab_spike").watched_seconds
    long = predicted("lab_spike", timeouts__drain_seconds="7200").watched_seconds

    assert short == 50 + 900
    assert long == 50 + 7200 + 300


def test_the_accounting_of_millions_takes_its_time() -> None:
    """Each million messages adds nine seconds to the run."""
    cell = checked_cell("steady", overrides={"tail": "none"})
    load = cell.scenario.profile
    made = predict(cell.scenario, cell.policy)
    ten = cell.scenario.model_copy(
        update={"profile": load.model_copy(update={"rate_per_second": 10 * load.rate_per_second})}
    )
    more = 9 * load.rate_per_second * load.duration_seconds

    assert expected_run_seconds(ten, made, started_replicas=2) - expected_run_seconds(
        cell.scenario, made, started_replicas=2
    ) == pytest.approx(9e-6 * more)


def test_one_slow_phase_does_not_rule_the_predicted_end() -> None:
    """The replicas rest at the median of the phases."""
    cell, period = checked_cell("hello"), SimulatedEnvironment().hpa_sync_seconds
    ends = [
        simulate(
            cell.scenario,
            cell.policy,
            environment=SimulatedEnvironment(hpa_sync_at_seconds=period * number / 3),
            draw=number,
        ).measures.settled_seconds
        for number in range(3)
    ]

    assert predict(cell.scenario, cell.policy, phases=3).settled_seconds == sorted(ends)[1]


@pytest.mark.parametrize("tail", ["until_settled", "none"])
def test_a_load_that_marks_no_spike_is_predicted_as_one_that_marks_it(tail: str) -> None:
    """The rule that finds the load steps of the plan also finds those of the prediction."""
    cell = checked_cell("quick_spike", overrides={"tail": tail})

    def of(mark: bool | None) -> tuple[Prediction, float]:
        stages = ((15, 600, None), (60, 6000, mark), (10, 600, None))
        profile = StagesProfile(
            kind="stages",
            stages=tuple(Stage(seconds=s, rate_per_second=r, is_spike=m) for s, r, m in stages),
        )
        scenario = cell.scenario.model_copy(update={"profile": profile})
        found = predict(scenario, cell.policy)
        return found, expected_run_seconds(scenario, found, started_replicas=2)

    assert of(None) == of(mark=True)
    assert of(None)[0].measures["drain_seconds"].missing == 0
