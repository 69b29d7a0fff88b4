"""Read and check the catalog's committed scenarios and policies before anything starts.

A scenario or policy is given by name (a file of the catalog) or by path. Every problem is one
``WrongInput`` that names file, field, value and what is allowed.
"""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from lagbench.catalog.catalog_files import (
    catalog_folder,
    find_file,
    is_path,
    policies_folder,
    resolved,
)
from lagbench.catalog.kubernetes_files import parse_objects, typed_objects
from lagbench.catalog.own_consumers import with_own_files
from lagbench.catalog.scenario_errors import require_numbers, wrong_file
from lagbench.catalog.strict_yaml import parse_mapping, parse_yaml, read_bytes, read_text
from lagbench.core.cluster.policy_manifest import check_actions
from lagbench.core.object_meta import left_out
from lagbench.core.policy.policy import Policy, check_fit, check_policy, require_one_start
from lagbench.core.policy.rate_scale import scaled_policy, scaled_scenario
from lagbench.core.policy.review.policy_file import policies_of, title_of
from lagbench.core.scenario.actions import MOST_PARTITIONS, SwapPolicy
from lagbench.core.scenario.conf_limits import ConfLimits
from lagbench.core.scenario.event_stream import poisoned_seqs
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.payload import MOST_FILE_BYTES, read_samples, with_samples
from lagbench.core.scenario.profiles import MOST_PROFILE_CHARACTERS, profile_text, trace_points
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.slo_limits import SLOS, with_limits
from lagbench.core.scenario.stream_tail import sample_shares
from lagbench.core.simulation.spark_needs import check_spark_fit
from lagbench.errors import WrongInput
from pod_program.shown import HIDDEN, looks_secret, shown

SETTING = "--set"
LEFT_OUT = "# left out of your file, as a cluster wrote it:"
"""Begins a run folder's copy of a policy that was read from a cluster."""


@dataclass(frozen=True, slots=True)
class SwappedPolicy:
    """A policy that an action puts in place of another."""

    name: str
    policy: Policy
    text: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A scenario and a policy that fit together; both texts go into the run folder."""

    scenario: Scenario
    policy_name: str
    policy: Policy
    policy_text: str
    swapped: Mapping[int, SwappedPolicy] = field(default_factory=dict)
    """By the number of the action."""
    second: Cell | None = None
    """The run as its second group sees it."""
    rate_scale: float = 1.0
    """At which scenario and policies stand here, against those that were given."""

    @property
    def scenario_text(self) -> str:
        """The effective scenario; of a long trace it takes seconds, so only a run writes it."""
        return _text_of(self.scenario)

    @property
    def groups(self) -> tuple[Cell, ...]:
        """The run as each of its consumer groups sees it; this is the first."""
        return (self,) if self.second is None else (self, self.second)

    @property
    def policies(self) -> tuple[tuple[str, Policy], ...]:
        """Each policy of the run with its name: of its groups, and of its actions."""
        return tuple(
            named
            for group in self.groups
            for named in (
                (group.policy_name, group.policy),
                *((one.name, one.policy) for one in group.swapped.values()),
            )
        )


def parse_settings(
    settings: Sequence[str],
    *,
    where: str = SETTING,
    field: str = "setting",
    example: str = "key=value with a dotted key, e.g. profile.spike_mult=5",
) -> dict[str, str]:
    """Return ``key=value`` settings by dotted key; the last one of a key wins."""
    parsed: dict[str, str] = {}
    for setting in settings:
        key, sign, value = setting.partition("=")
        if not sign or not all(key.strip().split(".")):
            raise WrongInput(where=where, field=field, value=setting, allowed=example)
        parsed[key.strip()] = value.strip()
    return parsed


def load_scenario(
    name_or_path: str | Path,
    overrides: Mapping[str, str] | None = None,
    limits: ConfLimits | None = None,
) -> Scenario:
    """Return a checked scenario, with a trace's points filled in.

    ``overrides`` replace fields by dotted key; their values are read as YAML.

    :param limits: on what a Dag's conf may name; None: the caller's own rights are the limit.
    """
    _require_place("scenario", name_or_path, limits)
    path = find_file(name_or_path, catalog_folder() / "scenarios", "scenario")
    where = str(path)
    text = read_text(path)
    file = parse_mapping(text, where=where)
    if isinstance(kind := file.get("kind"), str) and "apiVersion" in file:
        what = f"this is a {kind}, not a scenario: lagbench run SCENARIO --policy FILE takes it"
        raise WrongInput(where=where, field="kind", value=kind, allowed="a scenario", sentence=what)
    data = _with_overrides(file, overrides or {})
    if limits is not None:
        is_known = not is_path(str(name_or_path)) or str(name_or_path) in limits.names
        own = _with_overrides(file, limits.overrides) if is_known else {}
        limits.require_fields(data, own, lambda field, given: resolved(field, path.parent / given))
        limits = limits.with_policies_of(own)
    profile = data.get("profile")
    if isinstance(profile, Mapping) and profile.get("kind") == "trace":
        data["profile"] = _with_points(profile, path)
    try:
        scenario = Scenario.model_validate(data)
        require_numbers(scenario, data, where=where)
        _require_few_partitions(scenario, where)
    except ValidationError as error:
        problem = wrong_file(error, data, where=where, text=text, settings=overrides or {})
        is_one = len(error.errors()) == 1
        raise (_of_setting(problem, overrides or {}) if is_one else problem) from error
    except WrongInput as problem:
        raise _of_setting(problem, overrides or {}) from problem
    characters = len(profile_text(scenario.profile))
    if characters > MOST_PROFILE_CHARACTERS:
        most = f"{MOST_PROFILE_CHARACTERS:,}"
        allowed = f"at most {most} as the producer gets it: fewer rows or digits"
        value = f"{characters:,} characters"
        raise WrongInput(where=where, field="profile", value=value, allowed=allowed)
    scenario = with_own_files(_with_samples(_with_policies(scenario, path, limits), path), path)
    offered_load(scenario.profile, where=where)
    _require_poisoned_messages(scenario, where)
    return scenario


def _with_overrides(data: dict[str, Any], overrides: Mapping[str, str]) -> dict[str, Any]:
    for key, text in overrides.items():
        is_placeholder = re.fullmatch(r"\{[a-z_.]+\}", text)  # {pod}: in YAML a mapping
        value = text if is_placeholder else parse_yaml(text, where=f"{SETTING} {key}")
        data = _with_override(data, key, value)
    return data


def _require_place(name: str, given: str | Path, limits: ConfLimits | None) -> None:
    """Reject a path in a Dag's conf before it is read."""
    if limits is not None and is_path(str(given)):
        limits.require_folder(name, str(given), resolved(name, given))


def _with_policies(scenario: Scenario, file: Path, limits: ConfLimits | None) -> Scenario:
    """Return the scenario with the policies that it names by a path by their whole paths."""

    def whole(field: str, policy: str) -> str:
        if not is_path(policy):
            return policy
        path = resolved(field, file.parent / policy)
        if limits is not None and not path.is_relative_to(catalog_folder().resolve()):
            limits.require_folder(field, policy, path)
        return str(path)

    actions = tuple(
        one.model_copy(update={"policy": whole(f"actions.{number}.policy", one.policy)})
        if isinstance(one, SwapPolicy)
        else one
        for number, one in enumerate(scenario.actions)
    )
    changed: dict[str, Any] = {"policy": whole("policy", scenario.policy), "actions": actions}
    second = scenario.second_group
    if second is not None and second.policy is not None:
        policy = whole("second_group.policy", second.policy)
        changed["second_group"] = second.model_copy(update={"policy": policy})
    return scenario.model_copy(update=changed)


def _with_samples(scenario: Scenario, scenario_file: Path) -> Scenario:
    """Return the scenario with the facts on its samples, and their file by its whole path."""
    payload = scenario.payload
    if payload is None:
        return scenario
    path = resolved("payload.file", scenario_file.parent / payload.file)
    content = read_bytes(path, most=MOST_FILE_BYTES)
    samples = read_samples(content, payload, where=str(path))
    known = with_samples(
        payload, content, samples, partition_shares=sample_shares(samples, scenario.partitions)
    )
    return scenario.model_copy(update={"payload": known.model_copy(update={"file": str(path)})})


def _require_few_partitions(scenario: Scenario, where: str) -> None:
    if scenario.partitions > MOST_PARTITIONS:
        value, allowed = scenario.partitions, f"1 to {MOST_PARTITIONS} for a rehearsal"
        raise WrongInput(where=where, field="partitions", value=value, allowed=allowed)


def _require_poisoned_messages(scenario: Scenario, where: str) -> None:
    if scenario.poison is None or len(poisoned_seqs(scenario)):
        return
    allowed = "a key with messages in that part of the stream; key_rank 1 is the most frequent"
    value = scenario.poison.model_dump()
    raise WrongInput(where=where, field="poison", value=value, allowed=allowed)


def policy_file(name_or_path: str | Path) -> Path:
    """Return a policy's file, given by name or path; ``WrongInput`` if there is none."""
    return find_file(name_or_path, policies_folder(), "policy")


def read_objects(names_or_paths: Sequence[str]) -> tuple[str, list[Any]]:
    """Return the objects in the files of policies, and the files' names for a message."""
    places, objects = [], []
    for name in names_or_paths:
        if name == "-":
            where, text = "standard input", _standard_input()
        else:
            path = _policy_or_file(name)
            where, text = str(path), read_text(path)
        places.append(where)
        objects += typed_objects(parse_objects(text, where=where), where=where)
    return ", ".join(places), objects


def _policy_or_file(name: str) -> Path:
    """Return the file of a policy's name, or else the file of that name here, of any suffix."""
    try:
        return policy_file(name)
    except WrongInput:
        if is_path(name) or not Path(name).is_file():
            raise
    return Path(name)


def _standard_input() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        where = "standard input"
        raise WrongInput(where=where, field="text", value="-", allowed="text in UTF-8") from error


def load_policy(name_or_path: str | Path) -> Policy:
    """Return a policy after checking every field that KEDA or Kubernetes would check."""
    return _read_policy(policy_file(name_or_path))[0]


def _read_policy(path: Path, rate_scale: float = 1.0) -> tuple[Policy, str]:
    """Return the one policy of a file, and its text for a run folder, at the rate scale."""
    where, text = str(path), read_text(path)
    _, policies = policies_of(parse_objects(text, where=where), where=where)
    if len(policies) > 1:
        value = ", ".join(map(title_of, policies))
        allowed = "one policy: a run scales one group. Put the one that you mean into its own file"
        raise WrongInput(where=where, field="documents", value=value, allowed=allowed)
    checked = check_policy(policies[0], where=where)
    try:
        is_plain = yaml.safe_load(text) == checked.manifest
    except (yaml.YAMLError, ValueError):
        is_plain = False
    if rate_scale != 1:
        scaled = scaled_policy(checked, rate_scale)
        head = f"# {path.name} at rate_scale {rate_scale:g}\n"
        return scaled, head + yaml.safe_dump(dict(scaled.manifest), sort_keys=False)
    if is_plain:
        return checked, text
    gone = ", ".join(left_out(policies[0], checked.manifest))
    word = f"{LEFT_OUT} {gone}\n" if gone else ""
    return checked, word + yaml.safe_dump(dict(checked.manifest), sort_keys=False)


def checked_cell(
    scenario: str | Path,
    *,
    policy: str | None = None,
    overrides: Mapping[str, str] | None = None,
    limits: ConfLimits | None = None,
) -> Cell:
    """Return scenario and policy, each checked and both together; ``policy`` replaces its own."""
    _require_place("policy", policy or "", limits)
    given = load_scenario(scenario, overrides, limits)
    scale, loaded = given.rate_scale, scaled_scenario(given, given.rate_scale)
    path = policy_file(loaded.policy if policy is None else policy)
    checked, text = _read_policy(path, scale)
    check_fit(loaded, checked)
    check_spark_fit(loaded, checked)
    swapped = _swapped(loaded, scale)
    second = _second(loaded, policy, checked, scale)
    check_actions(
        loaded,
        [checked.manifest, *(one.policy.manifest for one in swapped.values())],
        started_replicas=checked.limits.started_replicas,
    )
    return Cell(loaded, _name_of(path), checked, text, swapped, second, scale)


def _text_of(scenario: Scenario) -> str:
    """Return the effective scenario as a run folder has it; one with one group does not say so.

    It is at its rate scale already.
    """
    without = {name for name in ("second_group", "payload") if getattr(scenario, name) is None}
    without.add("rate_scale")
    effective = scenario.model_dump(mode="json", exclude=without)
    second = effective.get("second_group") or {}
    places = [(effective, "policy.yaml"), (second, "second_group/policy.yaml")]
    places += [(one, f"policy-{number}.yaml") for number, one in enumerate(effective["actions"])]
    for place, name in places:
        if is_path(str(place.get("policy") or "")):
            place["policy"] = name  # the copy in the run folder
    return yaml.safe_dump(effective, sort_keys=False, allow_unicode=True)


def _second(
    scenario: Scenario, policy: str | None, of_first: Policy, rate_scale: float
) -> Cell | None:
    """Return the cell of the second group; without a policy of its own it has the first one's."""
    seen = scenario.of_second_group()
    if seen is None or scenario.second_group is None:
        return None
    named = (scenario.second_group.policy, policy, scenario.policy)
    path = policy_file(next(name for name in named if name is not None))
    checked, text = _read_policy(path, rate_scale)
    # The phase of the first group's HPA and windows of this policy would both fix the stream.
    check_fit(
        seen.model_copy(update={"hpa_sync_at_seconds": scenario.hpa_sync_at_seconds}), checked
    )
    require_one_start(of_first, checked)
    return Cell(seen, _name_of(path), checked, text)


def _name_of(policy: Path) -> str:
    """Return a policy's name: its file's, or that of the run whose folder holds it."""
    manifest = policy.with_name("manifest.json")
    if policy.name == "policy.yaml" and manifest.is_file():
        with suppress(ValueError, AttributeError, WrongInput):
            return str(json.loads(read_text(manifest)).get("policy") or policy.stem)
    return policy.stem


def _swapped(scenario: Scenario, rate_scale: float) -> dict[int, SwappedPolicy]:
    """Return the policies of the scenario's swaps, each checked as the first one is."""
    found = {}
    for number, action in enumerate(scenario.actions):
        if isinstance(action, SwapPolicy):
            field = f"actions.{number}.policy"
            path = find_file(action.policy, policies_folder(), field)
            checked, text = _read_policy(path, rate_scale)
            check_fit(scenario, checked)
            if checked.windows:
                allowed = "a policy without cron windows: only the first policy's are placed"
                where = checked.where
                raise WrongInput(where=where, field=field, value=action.policy, allowed=allowed)
            found[number] = SwappedPolicy(path.stem, checked, text)
    return found


def _with_override(data: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Return ``data`` with the dotted ``key`` set; missing mappings on the way are created."""
    changed = copy.deepcopy(dict(data))
    at, parts = changed, key.split(".")
    for index, part in enumerate(parts[:-1]):
        inner = at.setdefault(part, {})
        if part == SLOS and isinstance(inner, dict):
            name, _, of_limit = ".".join(parts[index + 1 :]).partition(".")
            at[part] = with_limits(inner, {name: {of_limit: value} if of_limit else value})
            return changed
        if not isinstance(inner, dict):
            parent = ".".join(parts[: index + 1])
            allowed = f"fields below {parent} only when it is a mapping (it is {shown(inner)})"
            raise WrongInput(where=SETTING, field=key, value=value, allowed=allowed)
        at = inner
    at[parts[-1]] = value
    return changed


def _of_setting(problem: WrongInput, overrides: Mapping[str, str]) -> WrongInput:
    """Return the problem with ``--set`` as its place if a setting brought the field in."""
    for key in overrides:
        if problem.field == key or problem.field.startswith(f"{key}."):
            value = HIDDEN if looks_secret(key) else overrides[key]
            where = f"{SETTING} {key}={value} on {problem.where}"
            return WrongInput(
                where=where,
                field=problem.field,
                value=problem.value,
                allowed=problem.allowed,
                sentence=problem.sentence,
            )
    return problem


def _with_points(profile: Mapping[str, Any], scenario_file: Path) -> dict[str, Any]:
    """Return a trace with its points; an effective scenario has them already."""
    file = profile.get("file")
    if profile.get("points") or not isinstance(file, str) or not file:
        return dict(profile)
    path = scenario_file.parent / file
    return {**profile, "points": trace_points(read_text(path), where=str(path))}
