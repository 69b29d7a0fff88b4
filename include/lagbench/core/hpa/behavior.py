"""``behavior`` of an HPA: its model with the API server's defaults, and the rate limits.

Instants are integer nanoseconds, so that a 15 s period is compared exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from lagbench.core.kubernetes.fields import refuse_unknown_fields
from lagbench.core.kubernetes.instants import NS_PER_SECOND
from lagbench.errors import WrongInput


class ScalingPolicy(BaseModel):
    """The change allowed within ``period_seconds``: a number of pods or a percentage."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["Pods", "Percent"]
    value: int
    period_seconds: int


class ScalingRules(BaseModel):
    """One direction of ``behavior``; window None means the controller's own (scale-down only)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    window_seconds: int | None
    select_policy: Literal["Max", "Min", "Disabled"] = "Max"
    policies: tuple[ScalingPolicy, ...]

    @property
    def longest_period_seconds(self) -> int:
        """Return how long a change can matter to any policy."""
        return max(policy.period_seconds for policy in self.policies)


class HpaBehavior(BaseModel):
    """Both directions, defaults applied."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scale_up: ScalingRules
    scale_down: ScalingRules


_DEFAULT_UP = ScalingRules(
    window_seconds=0,
    policies=(
        ScalingPolicy(type="Pods", value=4, period_seconds=15),
        ScalingPolicy(type="Percent", value=100, period_seconds=15),
    ),
)
_DEFAULT_DOWN = ScalingRules(
    window_seconds=None,
    policies=(ScalingPolicy(type="Percent", value=100, period_seconds=15),),
)


@dataclass(frozen=True, slots=True)
class ScaleEvent:
    """A change of replicas that was carried out."""

    change: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class ScaleEvents:
    """The changes that policies still count, by direction."""

    ups: tuple[ScaleEvent, ...] = ()
    downs: tuple[ScaleEvent, ...] = ()


def parse_behavior(
    behavior: Mapping[str, Any] | None, *, where: str, field: str
) -> HpaBehavior | None:
    """Return ``behavior`` with defaults; None stays None: another algorithm then applies."""
    if behavior is None:
        return None
    refuse_unknown_fields(behavior, ("scaleUp", "scaleDown"), where=where, field=field)
    up, down = behavior.get("scaleUp"), behavior.get("scaleDown")
    return HpaBehavior(
        scale_up=_parse_rules(up, _DEFAULT_UP, where, f"{field}.scaleUp"),
        scale_down=_parse_rules(down, _DEFAULT_DOWN, where, f"{field}.scaleDown"),
    )


def _parse_rules(
    rules: Mapping[str, Any] | None, default: ScalingRules, where: str, field: str
) -> ScalingRules:
    if rules is None:
        return default
    known = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
    refuse_unknown_fields(rules, known, where=where, field=field)
    window = rules.get("stabilizationWindowSeconds", default.window_seconds)
    if window is not None:
        _check_range(window, 0, 3600, where, f"{field}.stabilizationWindowSeconds")
    # An empty list counts as none given: the defaults come back.
    given = rules.get("policies") or []
    if not isinstance(given, list):
        raise WrongInput(where=where, field=f"{field}.policies", value=given, allowed="a list")
    policies = tuple(
        _parse_policy(policy, where, f"{field}.policies[{index}]")
        for index, policy in enumerate(given)
    )
    select = rules.get("selectPolicy", default.select_policy)
    if select not in ("Max", "Min", "Disabled"):
        raise WrongInput(
            where=where, field=f"{field}.selectPolicy", value=select, allowed="Disabled, Max, Min"
        )
    return ScalingRules(
        window_seconds=window, select_policy=select, policies=policies or default.policies
    )


def _parse_policy(policy: Mapping[str, Any], where: str, field: str) -> ScalingPolicy:
    refuse_unknown_fields(policy, ("type", "value", "periodSeconds"), where=where, field=field)
    value, period = policy.get("value"), policy.get("periodSeconds")
    _check_range(value, 1, 2**31 - 1, where, f"{field}.value")
    _check_range(period, 1, 1800, where, f"{field}.periodSeconds")
    try:
        return ScalingPolicy.model_validate(
            {"type": policy.get("type"), "value": value, "period_seconds": period}
        )
    except ValidationError as error:
        raise WrongInput(
            where=where, field=f"{field}.type", value=policy.get("type"), allowed="Pods, Percent"
        ) from error


def _check_range(value: object, low: int, high: int, where: str, field: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        allowed = f"a whole number from {low} to {high}"
        raise WrongInput(where=where, field=field, value=value, allowed=allowed)


def scale_up_limit(rules: ScalingRules, replicas: int, events: ScaleEvents, now_ns: int) -> int:
    """Return the most replicas that the policies allow now."""
    if rules.select_policy == "Disabled":
        return replicas
    starts = _period_starts(rules, replicas, events, now_ns)
    limits = [
        start + policy.value if policy.type == "Pods" else ceil(start * (1 + policy.value / 100))
        for policy, start in zip(rules.policies, starts, strict=True)
    ]
    return min(limits) if rules.select_policy == "Min" else max(limits)


def scale_down_limit(rules: ScalingRules, replicas: int, events: ScaleEvents, now_ns: int) -> int:
    """Return the fewest replicas that the policies allow now."""
    if rules.select_policy == "Disabled":
        return replicas
    starts = _period_starts(rules, replicas, events, now_ns)
    limits = [
        start - policy.value if policy.type == "Pods" else int(start * (1 - policy.value / 100))
        for policy, start in zip(rules.policies, starts, strict=True)
    ]
    # "Max" is the largest change, which for scaling down is the smallest count.
    return max(limits) if rules.select_policy == "Min" else min(limits)


def _period_starts(
    rules: ScalingRules, replicas: int, events: ScaleEvents, now_ns: int
) -> list[int]:
    """Return, per policy, the replicas that there were at the start of its period."""
    starts = []
    for policy in rules.policies:
        cut_ns = now_ns - policy.period_seconds * NS_PER_SECOND
        added = sum(event.change for event in events.ups if event.at_ns > cut_ns)
        removed = sum(event.change for event in events.downs if event.at_ns > cut_ns)
        starts.append(replicas - added + removed)
    return starts
