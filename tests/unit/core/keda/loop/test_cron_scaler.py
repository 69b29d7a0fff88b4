"""The cron trigger at an instant."""

from datetime import UTC, datetime, timedelta

import pytest

from lagbench.core.keda.loop.scalers import CronScaler, ScalerFailed
from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.core.keda.triggers.cron_trigger import CronTrigger

SECOND = 1_000_000_000


class Now:
    """A clock that a test sets."""

    def __init__(self, text: str) -> None:
        """Start at an instant in UTC."""
        self.text = text

    def ns(self) -> int:
        """Return the instant in nanoseconds."""
        return int(datetime.fromisoformat(self.text).replace(tzinfo=UTC).timestamp()) * SECOND


def scaler(now: Now, metric_type: str = "AverageValue", **metadata: str) -> CronScaler:
    """Return a scaler of a trigger from 8:00 to 17:30 in Berlin, wanting 5 replicas."""
    given = {
        "timezone": "Europe/Berlin",
        "start": "0 8 * * *",
        "end": "30 17 * * *",
        "desiredReplicas": "5",
        **metadata,
    }
    manifest = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "w"},
        "spec": {
            "scaleTargetRef": {"name": "w"},
            "triggers": [{"type": "cron", "metricType": metric_type, "metadata": given}],
        },
    }
    trigger = parse_scaled_object(manifest, where="test").triggers[0]
    assert isinstance(trigger.parameters, CronTrigger)
    return CronScaler(trigger, trigger.parameters, now.ns)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        ("2026-07-01T05:59:59", 0.0),
        ("2026-07-01T06:00:00", 5.0),  # 8:00 in summer time
        ("2026-07-01T15:29:59", 5.0),
        ("2026-07-01T15:30:00", 0.0),
        ("2026-12-01T06:59:59", 0.0),
        ("2026-12-01T07:00:00", 5.0),  # 8:00 in winter time
    ],
)
def test_inside_the_window_the_replicas_are_wanted(at: str, value: float) -> None:
    """KEDA 2.21 gives desiredReplicas inside and 0 outside, in the trigger's time zone."""
    reading = scaler(Now(at)).read("")

    assert reading.values == (value,)
    assert reading.is_active == (value > 0)


def test_a_window_may_span_midnight() -> None:
    """From 22:00 to 2:00 one is inside on both sides of midnight."""
    now = Now("2026-07-01T23:00:00")
    night = scaler(now, timezone="UTC", start="0 22 * * *", end="0 2 * * *")
    values = []
    for at in ("2026-07-01T23:00:00", "2026-07-02T01:59:00", "2026-07-02T02:00:00"):
        now.text = at
        values.append(night.read("").values[0])

    assert values == [5.0, 5.0, 0.0]


def test_an_answer_holds_until_the_next_boundary_or_until_the_clock_steps_back() -> None:
    """One scaler is polled around the end of its hours, and then before their start."""
    now = Now("2026-07-01T06:00:00")
    office = scaler(now)
    seen = []
    for at in ("06:00:00", "06:00:01", "15:29:59", "15:30:00", "23:59:59", "05:00:00"):
        now.text = f"2026-07-01T{at}"
        seen.append(office.read("").values[0])

    assert seen == [5.0, 5.0, 5.0, 0.0, 0.0, 0.0]


def test_the_cached_answer_is_that_of_looking_each_time() -> None:
    """Over the two days around a change of clocks, polled every 10 minutes, nothing differs."""
    now = Now("2026-10-24T00:00:00")
    twice = {"start": "30 2 * * *", "end": "15 3 * * 0,1,6"}
    cached = scaler(now, **twice)
    begin = datetime(2026, 10, 24)  # noqa: DTZ001 - the clock reads it as UTC

    for minutes in range(0, 2 * 24 * 60, 10):
        now.text = (begin + timedelta(minutes=minutes)).isoformat()
        assert cached.read("") == scaler(now, **twice).read(""), now.text


def test_the_metric_type_is_the_triggers() -> None:
    """A trigger with metricType Value tells the HPA so."""
    (spec,) = scaler(Now("2026-07-01T00:00:00"), metric_type="Value").metric_specs()

    assert spec.target_type == "Value"


def test_a_time_zone_that_does_not_exist_fails_the_poll() -> None:
    """KEDA finds a bad time zone only when it polls."""
    with pytest.raises(ScalerFailed, match="Nowhere/City"):
        scaler(Now("2026-07-01T00:00:00"), timezone="Nowhere/City").read("")


def test_the_target_is_one_replica() -> None:
    """The metric counts replicas, so its target is 1."""
    (spec,) = scaler(Now("2026-07-01T00:00:00")).metric_specs()

    assert (spec.target_milli, spec.kind) == (1000, "External")
    assert spec.name == "s0-cron-Europe-Berlin-08xxx-3017xxx"
