"""Compare the best with the present policy line by line, and simulate the effect of each line.

Of the finalists, a line that changes nothing goes back to what it is today. Of the pick, the effect
of each line that stays is simulated with its draws: the pick with that one line as it was. Lines
that only work together show it so: each alone has little effect, or breaks the SLO.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from lagbench.core.advice.candidates import Draft, rules_text
from lagbench.core.advice.job import Job, digest, new_job
from lagbench.core.advice.judge import Judge
from lagbench.core.advice.model import Advice, Candidate, Change, Knob
from lagbench.core.advice.question import Question
from lagbench.core.advice.race import Entry, Evaluate, Race
from lagbench.core.hpa.hpa_sync import HpaSettings
from lagbench.core.kubernetes_values import DEFAULT_MAX_REPLICAS, HPA_TOLERANCE
from lagbench.core.policy.policy import Policy, check_fit
from lagbench.errors import WrongInput

_ABSENT = object()
_FEW_DRAWS, _MOST_DRAWS = 5, 20
_NO_EFFECT = 0.005
"""Share of the SLO's limit, or of the pod-minutes, that the phrase calls no difference."""
_WHY: Mapping[str, tuple[str, str, str]] = {
    "lagThreshold": ("pods come at less lag", "fewer pods for the same lag", "lag of one pod"),
    "activationLagThreshold": ("leaves zero sooner", "leaves zero later", "lag that ends zero"),
    "minReplicaCount": ("pays for fewer pods without load", "pods are there before a spike", ""),
    "maxReplicaCount": ("pays for fewer pods at the peak", "more pods at the peak", ""),
    "scaleUp.stabilizationWindowSeconds": ("adds pods sooner", "short bursts add no pods", ""),
    "scaleDown.stabilizationWindowSeconds": ("removes pods sooner", "keeps pods longer", ""),
    "scaleUp.tolerance": ("adds pods for less", "adds pods for more", "when pods are added"),
    "scaleDown.tolerance": ("removes pods for less", "keeps pods", "when pods are removed"),
    "scaleUp.policies": ("", "", "how fast pods are added"),
    "scaleUp.selectPolicy": ("", "", "how fast pods are added"),
    "scaleDown.policies": ("", "", "how fast pods are removed"),
    "scaleDown.selectPolicy": ("", "", "how fast pods are removed"),
    "sustainSeconds": ("reacts to shorter bursts", "short bursts add no pods", "lag must persist"),
    "desiredReplicas": ("fewer pods in its hours", "more pods in its hours", ""),
    "threshold": ("pods come at less of it", "fewer pods for the same value", ""),
    "triggers": ("", "", "another metric requests the pods"),
    "query": ("", "", "another metric requests the pods"),
    "lagMetric": ("", "", "lag now, or as it will be"),
    "lagScope": ("", "", "lag of all partitions, or of the worst"),
    "syncOnStep": ("", "", "the HPA syncs when lag steps"),
    "formula": ("", "", "how triggers add up"),
    "idleReplicaCount": ("", "", "pods while no trigger is active"),
    "ensureEvenDistributionOfPartitions": ("", "", "each pod gets as many partitions"),
}
"""By the end of a field: why a lower value, a higher one, and one that has no order."""
_OTHER_WHY = "the advised policy has it so"

_DEFAULTS: Mapping[str, float | str] = {
    "minReplicaCount": 0,
    "maxReplicaCount": DEFAULT_MAX_REPLICAS,
    "scaleUp.selectPolicy": "Max",
    "scaleDown.selectPolicy": "Max",
    "scaleUp.stabilizationWindowSeconds": 0,
    "scaleDown.stabilizationWindowSeconds": HpaSettings().downscale_stabilization_seconds,
    "scaleUp.tolerance": HPA_TOLERANCE,
    "scaleDown.tolerance": HPA_TOLERANCE,
}
"""Of KEDA and the HPA, where a policy does not write the field."""


@dataclass(frozen=True, slots=True)
class _Line:
    path: tuple[str | int, ...]
    before: Any
    after: Any

    @property
    def field(self) -> str:
        parts = [f"[{one}]" if isinstance(one, int) else f".{one}" for one in self.path]
        return "".join(parts).removeprefix(".")

    def text(self, value: Any) -> str | None:
        """Return a value as it is shown; None: it is not written, and has no known default."""
        if value is _ABSENT:
            default = self._default
            shown = f"{default:g}" if isinstance(default, float | int) else default
            return None if shown is None else f"{shown} (default)"
        if self.ends("policies"):
            return rules_text([(one["type"], one["value"], one["periodSeconds"]) for one in value])
        return value if isinstance(value, str) else json.dumps(value)

    @property
    def knob(self) -> Knob:
        """Return the value before as a knob of the search."""
        if self.before is _ABSENT:
            return None
        if self.ends("policies"):
            return self.text(self.before)
        number = _number(self.before)
        if number is None:
            return str(self.before)
        return int(number) if number.is_integer() else number

    @property
    def is_change(self) -> bool:
        """Return whether more changes than that the HPA's default is written, or is not."""
        default = self._default
        before, after = (default if one is _ABSENT else one for one in (self.before, self.after))
        return default is None or bool(before != after)

    @property
    def _default(self) -> float | str | None:
        return next((_DEFAULTS[end] for end in _DEFAULTS if self.ends(end)), None)

    def ends(self, end: str) -> bool:
        return f".{self.field}".endswith(f".{end}")

    @property
    def reason(self) -> str:
        for end, (lower, higher, other) in _WHY.items():
            if self.ends(end):
                before, after = (
                    _number(_DEFAULTS.get(end) if one is _ABSENT else one)
                    for one in (self.before, self.after)
                )
                if before is None or after is None or before == after:
                    return other or _OTHER_WHY
                return lower if after < before else higher
        return _OTHER_WHY


def with_fewest_changes(race: Race, finalists: Sequence[Entry]) -> list[Entry]:
    """Return the finalists with each line as the present policy has it that changes nothing.

    Nothing is changed if the SLOs hold as before, and the means of the first one and of the
    pod-minutes are not above those of the finalist. Triggers and annotations stay as they are.
    """
    question, found = race.judge.question, list(finalists)
    present, draws = question.present, question.draws[-1]
    if present is None:
        return found
    waiting = [
        [
            line
            for line in _lines(present.manifest, one.draft.manifest, ())
            if line.path[0] == "spec" and line.path[-1] != "triggers"
        ]
        if one.draft.family not in ("present", "rival")
        and one.draft.manifest.get("kind") == present.manifest.get("kind")
        else []
        for one in finalists
    ]
    while any(waiting):  # one line of each at a time, so that the trials share the processes
        trials: dict[int, Entry] = {}
        for at, lines in enumerate(waiting):
            if lines:
                draft = _restored(found[at].draft, lines.pop())
                with suppress(WrongInput):  # it cannot be without another line
                    limits = _admitted(question, draft.manifest).limits
                    if question.allows(limits):
                        trials[at] = Entry(draft, limits)
        for count in sorted({min(_FEW_DRAWS, draws), draws}):
            race.extend(list(trials.values()), race.places, count)
            trials = {
                at: one for at, one in trials.items() if _is_no_worse(race, one, finalists[at])
            }
        for at, one in trials.items():
            found[at] = one
    return found


def _is_no_worse(race: Race, trial: Entry, finalist: Entry) -> bool:
    """Compare them by the draws that the trial has seen."""
    most = _NO_EFFECT * race.judge.question.slos[0].limit
    for place in race.places:
        seen = {place.name: finalist.rows[place.name][: len(trial.rows[place.name])]}
        new, old = race.table([trial], [place]), race.table([replace(finalist, rows=seen)], [place])
        if old.holding > new.holding or new.values.mean() > old.values.mean() + most:
            return False
        if new.costs.mean() > old.costs.mean() * (1 + _NO_EFFECT):
            return False
    return True


def _restored(draft: Draft, line: _Line) -> Draft:
    """Return the draft with the line as it was, under the name that its object has."""
    manifest = _without(draft.manifest, line)
    knobs = {name: line.knob if line.ends(name) else knob for name, knob in draft.knobs.items()}
    name = draft.name if draft.family == "fixed" else f"{draft.family}-{digest(manifest)[:8]}"
    return replace(draft, name=name, manifest=manifest, knobs=knobs)


def _admitted(question: Question, manifest: Mapping[str, Any]) -> Policy:
    """Return the object as a policy, if KEDA admits it and the scenarios have room for it.

    :raises WrongInput: it is refused.
    """
    Policy.load(manifest, where="advise")
    policy = Policy.read(manifest, where="advise", kubernetes=question.version)
    for scenario in question.scenarios:
        check_fit(scenario, policy)
    return policy


def with_changes(question: Question, advice: Advice, evaluate: Evaluate) -> Advice:
    """Return the advice with the lines that it changes; the same without a present policy."""
    pick, present = advice.pick, advice.present
    if pick is None or present is None or pick.manifest.get("kind") != present.manifest.get("kind"):
        return advice
    lines = [one for one in _lines(present.manifest, pick.manifest, ()) if one.is_change]
    places, draws = list(question.places.values()), min(advice.seeds, _MOST_DRAWS)
    trials: dict[str, tuple[Policy, list[Job]]] = {}
    refused: dict[str, str] = {}
    tried = [(one.field, _without(pick.manifest, one)) for one in lines]
    for name, manifest in [("", pick.manifest), *tried]:
        try:
            policy = _admitted(question, manifest)
        except WrongInput as error:
            refused[name] = f"not alone: {error.field} must be {error.allowed}"
            continue
        jobs = [new_job(name, manifest, one, range(draws), question.version) for one in places]
        trials[name] = policy, jobs
    found = {
        one.key: one.rows for one in evaluate([job for _, js in trials.values() for job in js])
    }
    judge = Judge(replace(question, slos=[advice.slo, *advice.also]))
    judged = {
        name: pick.model_copy(
            update={
                "results": tuple(
                    judge.result(found[job.key], place, policy.limits)
                    for job, place in zip(jobs, places, strict=True)
                )
            }
        )
        for name, (policy, jobs) in trials.items()
    }
    changes = [_change(advice, one, judged, refused) for one in lines]
    return advice.model_copy(update={"changes": tuple(changes)})


def _change(
    advice: Advice, line: _Line, judged: Mapping[str, Candidate], refused: Mapping[str, str]
) -> Change:
    without, whole = judged.get(line.field), judged[""]
    holds = None if without is None else all(one.holds for one in without.results)
    return Change(
        field=line.field,
        before=line.text(line.before),
        after=line.text(line.after),
        reason=line.reason,
        slo_value=None if without is None else without.slo_value,
        pod_minutes=None if without is None else without.pod_minutes,
        holds=holds,
        effect=refused[line.field] if without is None else _effect(advice, whole, without),
    )


def _effect(advice: Advice, whole: Candidate, without: Candidate) -> str:
    """Say what the pick would be without the line."""
    slo, parts = advice.slo, list[str]()
    values = (without.slo_value, whole.slo_value)
    if None in values or abs(values[0] - values[1]) > _NO_EFFECT * max(slo.limit, 1e-9):  # type: ignore[operator]
        parts.append(f"{slo.slo.title} {slo.text(values[0])} instead of {slo.text(values[1])}")
    if without.pod_minutes and whole.pod_minutes:
        share = without.pod_minutes / whole.pod_minutes - 1
        if abs(share) > _NO_EFFECT:
            parts.append(f"{100 * abs(share):.1f} % {'more' if share > 0 else 'fewer'} pod-minutes")
    if any(one.broken[name] for one in without.results for name in one.broken):
        parts.append("breaks an SLO")
    elif not all(one.holds for one in without.results):
        parts.append("holds without the margin only")
    return "without it: " + ", ".join(parts) if parts else "no effect in the simulation"


def _lines(before: Any, after: Any, path: tuple[str | int, ...]) -> Iterator[_Line]:
    """Yield the leaves that differ; a list is one, but triggers of the same types are not."""
    if before == after:
        return
    if isinstance(after, Mapping) and before is _ABSENT:  # a whole block came
        before = {}
    if isinstance(before, Mapping) and after is _ABSENT:
        after = {}
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys([*after, *before]):
            yield from _lines(before.get(key, _ABSENT), after.get(key, _ABSENT), (*path, key))
    elif path[-1:] == ("triggers",) and _types(before) == _types(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _lines(old, new, (*path, number))
    else:
        yield _Line(path, before, after)


def _types(triggers: Any) -> list[Any] | None:
    return [one.get("type") for one in triggers] if isinstance(triggers, Sequence) else None


def _without(changed: Mapping[str, Any], line: _Line) -> dict[str, Any]:
    """Return the object with the line as it was."""
    manifest = copy.deepcopy(dict(changed))
    at: Any = manifest
    for part in line.path[:-1]:
        at = at.setdefault(part, {}) if isinstance(part, str) else at[part]
    if line.before is _ABSENT:
        at.pop(line.path[-1], None)
    else:
        at[line.path[-1]] = copy.deepcopy(line.before)
    return manifest


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
