"""Scale a cell down: arrivals, the rate of a pod and every threshold on lag by one factor.

The replicas and the seconds stay what they were, because each decision compares records with
records. A message takes 1 / factor as long. CPU of a pod stays, as its work on each message grows.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from lag_scaler.rule import LAG_SCALER_DEFAULT_THRESHOLD
from lagbench.core.keda.object.scaled_object_rules import MODIFIERS
from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec, Trigger
from lagbench.core.keda.triggers.cron_trigger import CronTrigger
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger
from lagbench.core.keda.triggers.promql import KNOWN_FORMS, parse_load_query
from lagbench.core.keda.triggers.trigger_types import ExternalTrigger
from lagbench.core.policy.policy import Policy, check_policy
from lagbench.core.policy.policy_limits import LAG_THRESHOLD_ANNOTATION, calls_lag_scaler
from lagbench.core.scenario.message_costs import scaled_cost
from lagbench.core.scenario.profiles import Profile, StagesProfile, TraceProfile
from lagbench.core.scenario.scenario import ConsumerSettings, Scenario
from lagbench.errors import WrongInput

MOST_ROUNDING = 0.05
"""A threshold in whole records that rounding moves by a larger share is another policy."""
_FIELD, _LAG, _ACTIVATION = "rate_scale", "lagThreshold", "activationLagThreshold"
_LINEAR = re.compile(r"(?:[A-Za-z_]\w*|[-+(),\s])+")
"""A formula without a constant, a product or a comparison: it grows with the load."""


def scaled(scenario: Scenario, policy: Policy, factor: float) -> tuple[Scenario, Policy]:
    """Return the cell at ``factor`` of its rates.

    :raises WrongInput: names what cannot be scaled: code of a user's own, a formula or query with
        constants, a threshold that rounding would change.
    """
    return scaled_scenario(scenario, factor), scaled_policy(policy, factor)


def scaled_scenario(scenario: Scenario, factor: float) -> Scenario:
    """Return the scenario with its arrivals and the rates of its pods times ``factor``."""
    if factor == 1:
        return scenario.model_copy(update={_FIELD: 1.0})
    changed: dict[str, Any] = {
        _FIELD: 1.0,
        "description": f"{scenario.description} ({_FIELD} {factor:g})",
        "profile": _profile(scenario.profile, factor),
        "consumer": _consumer(scenario.consumer, factor),
    }
    if scenario.poison is not None:
        seconds = _number(scenario.poison.hang_seconds / factor)
        changed["poison"] = scenario.poison.model_copy(update={"hang_seconds": seconds})
    if scenario.abort is not None:
        changed["abort"] = scenario.abort.scaled(factor)
    if (second := scenario.second_group) is not None:
        consumer = _consumer(second.consumer, factor)
        changed["second_group"] = second.model_copy(update={"consumer": consumer})
    found = scenario.model_copy(update=changed)
    try:
        Scenario.model_validate(found.model_dump(mode="json"))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        value, allowed = first["input"], f"after the scaling {first['msg']}"
        raise _opaque(f"scenario {scenario.name}", field, value, factor, allowed) from error
    return found


def scaled_policy(policy: Policy, factor: float) -> Policy:
    """Return the policy with each threshold on lag at ``factor`` of it; whole ones are rounded."""
    if factor == 1:
        return policy
    manifest = copy.deepcopy(dict(policy.manifest))
    notes = (manifest.get("metadata") or {}).get("annotations") or {}
    where = policy.where
    if LAG_THRESHOLD_ANNOTATION in notes:
        value = float(notes[LAG_THRESHOLD_ANNOTATION])
        notes[LAG_THRESHOLD_ANNOTATION] = f"{_number(value * factor):.12g}"
    spec = policy.spec
    for trigger in spec.triggers if isinstance(spec, ScaledObjectSpec) else ():
        metadata = manifest["spec"]["triggers"][trigger.index]["metadata"]
        metadata |= _thresholds(trigger, metadata, factor, where)
    if isinstance(spec, ScaledObjectSpec) and spec.modifiers is not None:
        is_linear = _LINEAR.fullmatch(spec.modifiers.formula)
        if not is_linear or any(isinstance(one.parameters, CronTrigger) for one in spec.triggers):
            allowed = "sums, min or max of triggers on lag: a constant in a formula is opaque"
            raise _opaque(where, f"{MODIFIERS}.formula", spec.modifiers.formula, factor, allowed)
        modifiers = manifest["spec"]["advanced"]["scalingModifiers"]
        for name in ("target", "activationTarget"):
            if name in modifiers:
                modifiers[name] = f"{_number(float(modifiers[name]) * factor):.12g}"
    return check_policy(manifest, where=where)


def _thresholds(
    trigger: Trigger, metadata: Mapping[str, Any], factor: float, where: str
) -> dict[str, str]:
    """Return the thresholds of a trigger, scaled; those at their defaults too."""
    field, found = f"spec.triggers[{trigger.index}]", dict[str, str]()
    values = _of_lag(trigger)
    if values is None:
        is_query = isinstance(trigger.parameters, PrometheusTrigger)
        name, allowed = "type", "a trigger whose threshold is known to be of lag"
        if is_query:
            name, allowed = "metadata.query", KNOWN_FORMS
        value = metadata.get("query", "") if is_query else trigger.type
        raise _opaque(where, f"{field}.{name}", value, factor, allowed)
    for name, value in values.items():
        if value and f"{name}FromEnv" in metadata:
            raise _opaque(where, f"{field}.metadata.{name}FromEnv", "", factor, "a number")
        exact = value * factor
        is_whole = name in (_LAG, _ACTIVATION)
        if is_whole and abs(round(exact) - exact) > MOST_ROUNDING * exact:
            allowed = f"{value:g} x {_FIELD} near a whole number above 0"
            raise _opaque(where, f"{field}.metadata.{name}", f"{value:g}", factor, allowed)
        if value:
            found[name] = f"{round(exact) if is_whole else _number(exact):.12g}"
    return found


def _of_lag(trigger: Trigger) -> dict[str, float] | None:
    """Return the thresholds in records of lag by their names; None: they are opaque."""
    read = trigger.parameters
    match read:
        case KafkaTrigger():
            return {_LAG: read.lag_threshold, _ACTIVATION: read.activation_lag_threshold}
        case PrometheusTrigger() if read.counts_lag or parse_load_query(read.query):
            activation = read.activation_threshold
            return {"threshold": read.threshold, "activationThreshold": activation}
        case ExternalTrigger() if calls_lag_scaler(trigger.type, read.metadata):
            given = {key: str(text).strip() for key, text in read.metadata.items()}
            found = {_ACTIVATION: float(given.get(_ACTIVATION) or 0)}
            if given.get("lagMetric") != "seconds":  # else it is an age
                found[_LAG] = float(given.get(_LAG) or LAG_SCALER_DEFAULT_THRESHOLD)
            return found
    return {} if trigger.is_resource or isinstance(read, CronTrigger) else None


def _profile(profile: Profile, factor: float) -> Profile:
    if isinstance(profile, TraceProfile):
        return profile.model_copy(update={_FIELD: _number(profile.rate_scale * factor)})
    if isinstance(profile, StagesProfile):
        stages = tuple(
            one.model_copy(update={"rate_per_second": _number(one.rate_per_second * factor)})
            for one in profile.stages
        )
        return profile.model_copy(update={"stages": stages})
    rate = _number(profile.rate_per_second * factor)
    return profile.model_copy(update={"rate_per_second": rate})


def _consumer(consumer: ConsumerSettings, factor: float) -> ConsumerSettings:
    if consumer.kind == "own":
        allowed = "stand-in or spark: the time that your own code takes cannot be scaled"
        raise _opaque("scenario", "consumer.kind", consumer.kind, factor, allowed)
    cost, cpu_ms = scaled_cost(consumer.process_ms, 1 / factor), _number(consumer.cpu_ms / factor)
    return consumer.model_copy(update={"process_ms": cost, "cpu_ms": cpu_ms})


def _number(value: float) -> float:
    """Return a product without the noise of binary fractions."""
    return float(f"{value:.12g}")


def _opaque(where: str, field: str, value: object, factor: float, allowed: str) -> WrongInput:
    told = f"{allowed} (or {_FIELD} 1, not {factor:g})"
    return WrongInput(where=where, field=field, value=value, allowed=told)
