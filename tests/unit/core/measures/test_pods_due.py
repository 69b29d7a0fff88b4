"""Whether a load step needed pods, by what the policy's triggers compare."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.group_story import ns
from tests.unit.core.measures.test_reaction import LOAD

from lagbench.core.measures.evidence.lag_readings import LagSeries, lag_series
from lagbench.core.measures.pods_due import Due, Standing, pods_due
from lagbench.core.measures.reaction_stamps import ReactionInput
from lagbench.core.policy.policy_limits import PolicyLimits, policy_limits

STEP_SECOND = 10

UNTIL_SECOND = 180

FORMULA = {"scalingModifiers": {"formula": "lag", "target": "5000"}}


def kafka(threshold: int, **fields: Any) -> dict[str, Any]:
    """Return a kafka trigger."""
    return {"type": "kafka", "metadata": {"lagThreshold": str(threshold)}, **fields}


def limits(*triggers: dict[str, Any], **spec: Any) -> PolicyLimits:
    """Return the limits of a ScaledObject from 4 to 12 replicas."""
    fixed = {"minReplicaCount": 4, "maxReplicaCount": 12, "triggers": list(triggers)}
    return policy_limits({"kind": "ScaledObject", "spec": {**fixed, **spec}})


def steady_lag(records: int) -> LagSeries:
    """Return total lag that is 0 before the step, and ``records`` in every sample after it."""
    lags = [0 if second <= STEP_SECOND else records for second in range(UNTIL_SECOND + 1)]
    return lag_series(
        at=[ns(second) for second in range(len(lags))],
        partition=[0] * len(lags),
        end_offset=[1_000_000] * len(lags),
        committed=[1_000_000 - lag for lag in lags],
    )


def due(policy: PolicyLimits, lag: int = 60_000, load_needs: float | None = None) -> Due:
    """Return whether the step needed more than the 4 pods that were Ready."""
    return pods_due(
        steady_lag(lag),
        policy,
        Standing(4, 4),
        partitions=12,
        step_at=ns(STEP_SECOND),
        until_at=ns(UNTIL_SECOND),
        load_needs=load_needs,
    )


def crossing(policy: PolicyLimits, replicas: int = 4) -> float | None:
    """Return the total lag above which more pods are due."""
    return ReactionInput(
        records=[],
        lag=steady_lag(0),
        timelines={},
        changes=(),
        load=LOAD,
        limits=policy,
        replicas_at_step=replicas,
        until_at=ns(UNTIL_SECOND),
    ).crossing_records


def test_lag_that_was_not_seen_may_have_needed_pods() -> None:
    """With a gap in the samples, low lag in all others does not show that no pod was due."""
    seen = steady_lag(100)
    known = [second for second in range(UNTIL_SECOND + 1) if not 60 < second < 90]
    gapped = lag_series(
        at=[ns(second) for second in known],
        partition=[0] * len(known),
        end_offset=[1_000_000] * len(known),
        committed=[999_900] * len(known),
    )
    for series, is_due in ((seen, False), (gapped, None)):
        found = pods_due(
            series,
            limits(kafka(20_000)),
            Standing(4, 4),
            partitions=12,
            step_at=ns(STEP_SECOND),
            until_at=ns(UNTIL_SECOND),
            load_needs=None,
        )
        assert found.is_due is is_due


def test_a_target_of_the_whole_group_is_not_multiplied_by_the_replicas() -> None:
    """With metricType Value and a target of 20,000 a lag of 60,000 needs more than 4 pods."""
    policy = limits(kafka(20_000, metricType="Value"))

    assert due(policy).is_due is True
    assert crossing(policy) == 20_000
    assert due(policy, lag=21_000).is_due is False  # within the HPA's tolerance


def test_a_target_of_each_replica_is_multiplied() -> None:
    """4 pods may hold 80,000 between them."""
    policy = limits(kafka(20_000))

    assert (due(policy).is_due, crossing(policy)) == (False, 80_000)


@pytest.mark.parametrize(
    ("triggers", "records"),
    [
        ((kafka(20_000), kafka(30_000, metricType="Value")), 30_000),
        ((kafka(5_000), kafka(30_000, metricType="Value")), 20_000),
    ],
)
def test_the_trigger_with_the_highest_proposal_decides(
    triggers: tuple[dict[str, Any], ...], records: int
) -> None:
    """Of a target of each replica and one of the group, the lower total for 4 pods counts."""
    assert crossing(limits(*triggers)) == records
    assert crossing(limits(*reversed(triggers))) == records


def test_a_formula_leaves_open_whether_a_pod_was_due() -> None:
    """It replaces the targets, and no pod is known to be due or not, whatever the load needs."""
    policy = limits(kafka(20_000), advanced=FORMULA)

    for found in (due(policy), due(policy, load_needs=3)):
        assert found.is_due is None
    assert crossing(policy) is None


def test_the_annotation_of_a_cpu_policy_counts_for_each_replica() -> None:
    """So that it is judged as the lag policy with which it is compared."""
    policy = policy_limits(
        {
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"annotations": {"lagbench.io/lag-threshold": "20000"}},
            "spec": {"minReplicas": 4, "maxReplicas": 12},
        }
    )

    assert (due(policy).is_due, crossing(policy)) == (False, 80_000)
