"""The policies that are searched: a designed grid around the scenarios' own rates and partitions.

Every knob has a few levels in physical units: seconds of a pod's work for a threshold, pods that
the base and the peak need for the bounds. Points of a Sobol sequence choose the levels, so that any
number of candidates covers all knobs evenly, and the same question has the same candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any

import numpy as np

from lagbench.core.advice.job import digest
from lagbench.core.advice.manifest import Rules, Skeleton
from lagbench.core.advice.model import Family, Knob
from lagbench.core.advice.question import Question
from lagbench.core.hpa.controller_flags import DEFAULT_KUBERNETES, KUBERNETES_ANNOTATION, has_gate
from lagbench.core.object_schema import value_at
from lagbench.core.policy.policy_limits import LAG_THRESHOLD_ANNOTATION
from lagbench.core.policy.stream_windows import WINDOWS_ANNOTATION
from lagbench.core.scenario.offered_load import load_spikes, offered_load
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream_tail import topic_shares
from lagbench.core.simulation.predicted_slos import OF_SPIKES

_SECONDS = (0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 45.0, 60.0)
"""Of a pod's work in one lagThreshold; the loop gain at 15 s is 1."""
_PARTS_OF_SLO = (0.1, 0.25, 0.5, 0.75)
_UP_WINDOWS = (0, 0, 0, 15, 30, 60)
_DOWN_WINDOWS = (0, 30, 60, 120, 180, 300, 600)
DOWN_WINDOW = "horizontalPodAutoscalerConfig.behavior.scaleDown.stabilizationWindowSeconds"
_SAFE_DOWN_WINDOW = 60
"""The pauses that a load does not have cost a shorter window nothing, so the search takes none."""
_DOWN = (
    (("Percent", 100, 15),),
    (("Percent", 50, 15),),
    (("Percent", 50, 60),),
    (("Percent", 25, 30),),
    (("Percent", 10, 60),),
    (("Pods", 1, 30),),
    (("Pods", 2, 60),),
)
_TOLERANCES_UP = (None, 0.0, 0.05, 0.2)
_TOLERANCES_DOWN = (None, 0.0, 0.2, 0.4)
_SUSTAIN = (0, 5, 15, 30, 60, 120)
_SAMPLING = (5, 10)
_LEADS = (15, 30, 60, 120)
_RANGES = (15, 30, 60)
_MOST_WINDOWS = 6
_SHARES: Mapping[Family, float] = {"lag-scaler": 0.1, "backlog-slo": 0.1, "cron": 0.1}
"""Of the budget, by how long a simulation takes, too; the rest goes to ``lag``."""
_MINUTE, _DAY = 60, 86_400


@dataclass(frozen=True, slots=True)
class Draft:
    """A policy to be judged; the name is the same in every search."""

    name: str
    family: Family
    manifest: Mapping[str, Any]
    knobs: Mapping[str, Knob] = field(default_factory=dict)


def pods_for_hottest(scenario: Scenario, rate: float) -> int | None:
    """Return the fewest pods at which the one with the hottest partition keeps up with ``rate``.

    That one may have as many partitions as any other. None: no number of pods does.
    """
    pod_rate = scenario.consumer.pod_rate_per_second or np.inf
    shares = np.sort(topic_shares(scenario))[::-1]
    for pods in range(1, len(shares) + 1):
        if rate * shares[: ceil(len(shares) / pods)].sum() <= pod_rate:
            return pods
    return None


class Space:
    """The levels of every knob for one question."""

    def __init__(self, question: Question) -> None:
        """Compute rates and pods of the scenarios; the slowest pod and the highest peak count."""
        self.question, self.skeleton = question, Skeleton.of(question.present)
        loads = [offered_load(one.profile) for one in question.scenarios]
        rates = [one.consumer.pod_rate_per_second or 0.0 for one in question.scenarios]
        self.pod_rate = min(rates)
        base = max(load.base_rate for load in loads) / self.pod_rate
        mean = max(load.total / load.duration_seconds for load in loads) / self.pod_rate
        peak = max(load.peak_rate for load in loads) / self.pod_rate
        self.most = most = question.most_replicas
        least = question.min_replicas
        is_idle = any(part.rate_per_second == 0 for load in loads for part in load.segments)
        floors = {ceil(base * part) for part in (1, 1.15, 1.5, 2)} | {ceil(mean), ceil(mean * 1.3)}
        floors |= {ceil(base + (peak - base) * part) for part in (0.25, 0.5, 0.75, 1)}
        floors |= {1 if is_idle else ceil(base), *((0,) if is_idle else ())}
        if least is not None:
            floors = {max(least, one) for one in floors} | {least}
        self.floors = sorted(
            {min(max(one, 0 if is_idle or least == 0 else 1), most) for one in floors}
        )
        tops = {ceil(peak * part) for part in (0.5, 0.75, 1, 1.25)}
        self.ceilings = sorted({min(max(one, 1), most) for one in tops} | {most})
        seconds = {*_SECONDS}
        for slo in question.slos:
            if slo.name.endswith("_seconds"):
                seconds |= {slo.limit * part for part in _PARTS_OF_SLO}
        thresholds = {_rounded(self.pod_rate * one) for one in seconds}
        cap = self.most_threshold
        self.thresholds = sorted({one if cap is None else min(one, cap) for one in thresholds})
        window = value_at(self.skeleton.advanced, DOWN_WINDOW)
        shortest = _SAFE_DOWN_WINDOW if window is None else min(int(window), _SAFE_DOWN_WINDOW)
        self.down_windows = sorted({shortest, *(w for w in _DOWN_WINDOWS if w >= shortest)})
        quarter, many = max(1, most // 4), max(2, most // 2)
        self.ups: tuple[tuple[tuple[str, int, int], ...], ...] = (
            (("Pods", most, 15),),
            (),  # Kubernetes' own: 100 % or 4 pods in 15 s
            (("Percent", 100, 15),),
            (("Percent", 50, 15),),
            (("Pods", quarter, 15),),
            (("Pods", many, 30),),
            (("Pods", quarter, 60),),
        )
        # None where the scenarios' spikes differ: whose hours would it be?
        found = [{self._windows_of(one, lead) for one in question.scenarios} for lead in _LEADS]
        self.cron_windows = sorted({one.pop() for one in found if len(one) == 1} - {()})
        peak_rate = max(load.peak_rate for load in loads)
        self.hottest_needs = max(
            pods_for_hottest(one, peak_rate) or question.partitions for one in question.scenarios
        )
        self.cron_pods = sorted(one for one in {*self.floors, most} if one >= self.hottest_needs)

    @property
    def most_threshold(self) -> int | None:
        """The highest lagThreshold that a question on drain or reaction allows; None: any.

        Both are defined by it, so that a higher one would make them shorter and no work faster.
        """
        if not any(one.name in OF_SPIKES for one in self.question.slos):
            return None
        present = self.question.present
        known = None if present is None else present.limits.lag_threshold_records
        return max(1, floor(self.pod_rate if known is None else known))

    @property
    def follows_tolerance(self) -> bool:
        """Return whether Kubernetes reads a tolerance in ``behavior``."""
        return has_gate("HPAConfigurableTolerance", self.question.version)

    @property
    def _version(self) -> dict[str, str]:
        """Return the annotation with which a bench follows the version; none for its default."""
        version = self.question.version
        return {} if version == DEFAULT_KUBERNETES else {KUBERNETES_ANNOTATION: version}

    def fixed(self, pods: int) -> Draft:
        """Return the policy that has ``pods`` at any time."""
        trigger = self.skeleton.kafka(self.most_threshold or _rounded(self.pod_rate))
        rules = Rules((), None)
        manifest = self.skeleton.scaled_object(
            (pods, pods), [trigger], (rules, rules), self._version
        )
        knobs = {"minReplicaCount": pods, "maxReplicaCount": pods}
        return Draft(f"fixed-{pods}", "fixed", manifest, knobs)

    def drafts(self) -> list[Draft]:
        """Return the candidates, at most as many as the budget; those of a fixed number first.

        Their order is that of the search: of equal ones the first stays.
        """
        counts = max(2, self.question.budget // 100)
        fixed = {round(n) for n in np.linspace(max(1, self.floors[0]), self.most, counts).tolist()}
        found = [self.fixed(pods) for pods in sorted(fixed)]
        seen = {digest(one.manifest) for one in found}
        left = self.question.budget - len(found)
        for family, share in _SHARES.items():
            found += self._of_family(family, round(left * share), seen)
        found += self._of_family("lag", self.question.budget - len(found), seen)
        return found

    def _of_family(self, family: Family, quota: int, seen: set[str]) -> Iterator[Draft]:
        """Yield up to ``quota`` different objects of a family that are not yet ``seen``."""
        build: Callable[[Mapping[str, Any]], Draft] = getattr(self, f"_{family.replace('-', '_')}")
        has_tolerance = self.follows_tolerance
        levels: list[tuple[str, Sequence[Any]]] = [
            ("threshold", self.thresholds),
            ("floor", self.floors),
            ("ceiling", self.ceilings),
            ("up", self.ups),
            ("up_window", _UP_WINDOWS),
            ("down", _DOWN),
            ("down_window", self.down_windows),
            ("up_tolerance", _TOLERANCES_UP if has_tolerance else (None,)),
            ("down_tolerance", _TOLERANCES_DOWN if has_tolerance else (None,)),
            *self._own(family),
        ]
        if not quota or not all(levels for _, levels in levels):
            return
        # The first points of a sequence are evenly spread, so more are drawn only for twins.
        for point in _points(len(levels), 4 * quota + 64):
            chosen = {
                name: choices[int(share * len(choices))]
                for (name, choices), share in zip(levels, point, strict=True)
            }
            draft = build(chosen)
            key = digest(draft.manifest)
            if key not in seen:
                seen.add(key)
                yield draft
                quota -= 1
                if not quota:
                    return

    def _own(self, family: Family) -> list[tuple[str, Sequence[Any]]]:
        """Return the knobs that a family has beside the common ones."""
        if family == "lag-scaler":
            pushes = (False, True) if has_gate("HPAGeneration", self.question.version) else (False,)
            return [
                ("sustain", _SUSTAIN),
                ("metric", ("records", "projected")),
                ("scope", ("total", "partition")),
                ("sampling", _SAMPLING),
                ("push", pushes),
            ]
        if family == "cron":
            return [("windows", self.cron_windows), ("pods", self.cron_pods)]
        if family == "backlog-slo":
            limits = [one.limit for one in self.question.slos if one.name.endswith("_seconds")]
            targets = (
                {max(1, round(limits[0] * part)) for part in _PARTS_OF_SLO} if limits else {10}
            )
            return [("seconds", sorted(targets | {5, 15, 30})), ("range", _RANGES)]
        return [("activation", (0, *self.thresholds[:3]))] if self.floors[0] == 0 else []

    def _lag(self, chosen: Mapping[str, Any]) -> Draft:
        is_zero = chosen["floor"] == 0
        activation = chosen.get("activation", 0) if is_zero else 0
        more = {"activationLagThreshold": activation} if is_zero else {}
        trigger = self.skeleton.kafka(chosen["threshold"], activation)
        return self._draft("lag", chosen, [trigger], more)

    def _lag_scaler(self, chosen: Mapping[str, Any]) -> Draft:
        sustain, sampling = chosen["sustain"], chosen["sampling"]
        rule = {
            "lagMetric": chosen["metric"],
            "lagScope": chosen["scope"],
            "sustainSeconds": str(sustain),
            "samplingInterval": str(sampling),
            # More than the stretch that must be shown, and enough for a rate.
            "windowSize": str(max(6, ceil(1.2 * sustain / sampling) + 2)),
        }
        shown: dict[str, Knob] = {"lagMetric": chosen["metric"], "lagScope": chosen["scope"]}
        shown |= {"sustainSeconds": sustain, "samplingInterval": sampling}
        if chosen["push"]:
            rule["syncOnStep"] = "true"
            shown["syncOnStep"] = True
        trigger = self.skeleton.external(chosen["threshold"], rule, is_push=chosen["push"])
        return self._draft("lag-scaler", chosen, [trigger], shown)

    def _cron(self, chosen: Mapping[str, Any]) -> Draft:
        windows, pods = chosen["windows"], chosen["pods"]
        crons = [
            {"timezone": "UTC", "start": _daily(a), "end": _daily(b), "desiredReplicas": str(pods)}
            for a, b in windows
        ]
        notes = {WINDOWS_ANNOTATION: ", ".join(f"{start}-{end}" for start, end in windows)}
        more: dict[str, Knob] = {"desiredReplicas": pods, "cron": notes[WINDOWS_ANNOTATION]}
        triggers = [self.skeleton.kafka(chosen["threshold"])]
        triggers += [{"type": "cron", "metadata": one} for one in crons]
        return self._draft("cron", chosen, triggers, more, notes)

    def _backlog_slo(self, chosen: Mapping[str, Any]) -> Draft:
        seconds, window = chosen["seconds"], chosen["range"]
        trigger = self.skeleton.backlog(self.pod_rate, seconds, window)
        # It has no lagThreshold of its own: the backlog that it works off within the seconds.
        threshold = _rounded(self.pod_rate * seconds)
        if self.most_threshold is not None:
            threshold = min(threshold, self.most_threshold)
        notes = {LAG_THRESHOLD_ANNOTATION: str(threshold)}
        more: dict[str, Knob] = {"backlogSeconds": seconds, "rateSeconds": window}
        return self._draft("backlog-slo", {**chosen, "threshold": None}, [trigger], more, notes)

    def _draft(
        self,
        family: Family,
        chosen: Mapping[str, Any],
        triggers: Sequence[Mapping[str, Any]],
        more: Mapping[str, Knob],
        annotations: Mapping[str, str] | None = None,
    ) -> Draft:
        floor_, top = chosen["floor"], max(chosen["ceiling"], chosen["floor"], 1)
        if family == "cron":
            floor_ = floor_ if floor_ < chosen["pods"] else self.floors[0]
            top = max(top, chosen["pods"])
        up = Rules(chosen["up"], chosen["up_window"], chosen["up_tolerance"])
        down = Rules(chosen["down"], chosen["down_window"], chosen["down_tolerance"])
        notes = {**(annotations or {}), **self._version}
        knobs: dict[str, Knob] = {
            "lagThreshold": chosen["threshold"],
            "minReplicaCount": floor_,
            "maxReplicaCount": top,
            "scaleUp.policies": rules_text(up.policies),
            "scaleUp.stabilizationWindowSeconds": up.window,
            "scaleDown.policies": rules_text(down.policies),
            "scaleDown.stabilizationWindowSeconds": down.window,
        }
        if self.follows_tolerance:
            knobs |= {"scaleUp.tolerance": up.tolerance, "scaleDown.tolerance": down.tolerance}
        if chosen["threshold"] is None:
            del knobs["lagThreshold"]
        manifest = self.skeleton.scaled_object((floor_, top), triggers, (up, down), notes)
        return Draft(f"{family}-{digest(manifest)[:8]}", family, manifest, {**knobs, **more})

    def _windows_of(self, scenario: Scenario, lead: int) -> tuple[tuple[int, int], ...]:
        """Return cron windows in seconds of the stream that open ``lead`` before each spike.

        Of many the shortest pauses are left out. None where they cannot be placed.
        """
        if scenario.hpa_sync_at_seconds is not None:
            return ()
        load = offered_load(scenario.profile)
        pods = max(1, ceil(load.base_rate / self.pod_rate))
        spikes = load_spikes(load, started_replicas=pods, pod_rate=self.pod_rate)
        if not spikes:
            return ()
        first = max(0, floor(spikes[0].start_seconds - lead)) % _MINUTE
        found: list[tuple[int, int]] = []
        for spike in spikes:
            start = first + _MINUTE * floor((max(0, spike.start_seconds - lead) - first) / _MINUTE)
            end = first + _MINUTE * ceil((spike.end_seconds - first) / _MINUTE)
            end = min(end, first + _MINUTE * ((_DAY - 1 - first) // _MINUTE))
            start = max(start, first)
            if found and start <= found[-1][1]:
                found[-1] = (found[-1][0], end)
            else:
                found.append((start, end))
        while len(found) > _MOST_WINDOWS:
            pauses = [later[0] - earlier[1] for earlier, later in pairwise(found)]
            at = pauses.index(min(pauses))
            found[at : at + 2] = [(found[at][0], found[at + 1][1])]
        return tuple(found)


def _points(dimensions: int, count: int) -> Iterator[Sequence[float]]:
    """Yield points of the unit cube."""
    from scipy.stats import qmc  # takes a second to load

    sequence = qmc.Sobol(dimensions, scramble=False)
    for exponent in range(ceil(np.log2(count)) + 1):
        for point in sequence.random(max(1, 2**exponent // 2)):
            yield point.tolist()


def _rounded(number: float) -> int:
    """Return a whole number of two figures, at least 1."""
    digits = max(0, floor(log10(max(number, 1))) - 1)
    return max(1, int(round(number, -digits)))


def rules_text(policies: Sequence[tuple[str, int, int]]) -> str:
    """Return the policies of one direction: type, value and periodSeconds of each."""
    parts = (f"{value}{'%' if kind == 'Percent' else ''}/{s} s" for kind, value, s in policies)
    return ", ".join(parts) or "default"


def _daily(second: int) -> str:
    """Return a daily cron schedule, as if the stream started at midnight."""
    minutes = second // _MINUTE
    return f"{minutes % 60} {minutes // 60} * * *"
