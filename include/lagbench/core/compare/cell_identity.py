"""Identify the runs of one cell: same load, consumers, policy, seed, target and fidelity.

Only runs of the same cell are compared. Policy and target are digests, because a run folder names
no machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lagbench.core.measures.model import Fidelity, MeasureModel
from lagbench.core.scenario.scenario import Scenario

NOT_RUN = {"description", "policy", "slos", "seed"}
"""Scenario fields that do not affect a run: its text, the policy's name, the verdict's limits.
The seed is added separately below, even if it is the default."""

_FILES = {"consumer": ("manifest", "manifest_sha256"), "payload": ("file", "sha256")}
"""The user's files in a scenario: the field of the path, and that of the content's digest."""

_PATHS = {"consumer": ("env_file",)}
"""Paths of files that do not count: a run folder has no digest of their content, a secret."""

_EARLIER_NAMES: Mapping[str, str] = {
    "consumer.drain": "consumer.graceful_shutdown",
    "consumer.drain_timeout_seconds": "consumer.shutdown_timeout_seconds",
}
"""The names with which the digests of earlier nights were made."""


def content_digest(content: Any) -> str:
    """Return the SHA-256 of parsed YAML or JSON; order of keys and comments make no difference."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def policies_digest(policy: Mapping[str, Any], swapped: Sequence[Mapping[str, Any]]) -> str:
    """Return the digest of a cell's policies: the first one, and those that actions swap in."""
    return content_digest([policy, *swapped] if swapped else policy)


def cell_id(
    scenario: Scenario, *, policy_digest: str, target_digest: str, fidelity: Fidelity
) -> str:
    """Return the digest that all runs of one cell share, and no other run.

    Fields at their default are left out, so a field that is added later changes no digest. Renamed
    fields count under their earlier name, so that the runs before and after are of one cell.

    :param policy_digest: of the policy files' contents, before a run's names are inserted.
    :param target_digest: of the target's name, e.g. ``embedded`` or ``context:NAME``.
    """
    dumped = scenario.model_dump(mode="json", exclude_defaults=True, exclude=NOT_RUN)
    effective = files_by_content(dumped)
    if second := effective.get("second_group"):  # its policy is in the digest of the policies
        effective["second_group"] = {name: second[name] for name in second if name not in NOT_RUN}
    return content_digest(
        {
            "scenario": _by_earlier_names(effective),
            "seed": scenario.seed,
            "policy": policy_digest,
            "target": target_digest,
            "fidelity": fidelity,
        }
    )


def files_by_content(dumped: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dumped scenario in which the digest of a user's file stands for its path.

    The same file in another folder or on another machine makes the same cell.
    """
    found = dict(dumped)
    for part, (path, digest) in _FILES.items():
        fields = found.get(part)
        if isinstance(fields, Mapping) and fields.get(digest) is not None:
            found[part] = {**fields, path: fields[digest]}
            del found[part][digest]
    for part, paths in _PATHS.items():
        if isinstance(fields := found.get(part), Mapping):
            found[part] = {name: value for name, value in fields.items() if name not in paths}
    return found


def _by_earlier_names(effective: dict[str, Any]) -> dict[str, Any]:
    """Return the fields under the names and values of earlier versions."""
    found = {key: dict(part) if isinstance(part, dict) else part for key, part in effective.items()}
    for earlier, current in _EARLIER_NAMES.items():
        part, _, name = current.partition(".")
        if name in found.get(part, {}):
            value = found[part].pop(name)
            is_switch = isinstance(value, bool)  # earlier a text: on or off
            found[part][earlier.partition(".")[2]] = ("off", "on")[value] if is_switch else value
    return found


_MACHINE = ("processor", "cores", "architecture", "system", "kernel")

_OF_SOME_POLICIES = {"versions.keda", "versions.keda-rules"}
"""Recorded for a ScaledObject only, as unknown if unreadable; an HPA is of Kubernetes alone."""

_MISSING = "not recorded"

_GIBIBYTE = 2**30


class Environment(MeasureModel):
    """Names and values that must be equal for two runs to be compared.

    ``facts`` holds the kind of machine and each recorded version. Host names are in no run folder,
    so two machines of one kind are one environment. The measured speed of a core is left out, since
    it differs a little with each measurement.
    """

    facts: dict[str, str]

    @classmethod
    def of_manifest(cls, manifest: Mapping[str, Any]) -> Environment:
        """Return the environment that the manifest records; what it lacks is left out."""
        machine = manifest.get("machine") or {}
        facts = {
            f"machine.{name}": str(machine[name])
            for name in _MACHINE
            if machine.get(name) is not None
        }
        memory = machine.get("memory_bytes")
        if memory is not None:
            facts["machine.memory_gibibytes"] = str(round(int(memory) / _GIBIBYTE))
        versions = manifest.get("versions") or {}
        facts |= {f"versions.{name}": str(found) for name, found in versions.items()}
        return cls(facts=dict(sorted(facts.items())))

    @property
    def key(self) -> str:
        """The digest that equal environments share."""
        return content_digest(self.facts)

    def changes(self, other: Environment) -> list[str]:
        """Return a text for each fact that differs: ``machine.cores: 2 against 4``."""
        return [
            f"{name}: {self.facts.get(name, _MISSING)} against {other.facts.get(name, _MISSING)}"
            for name in differing_facts((self, other))
        ]


def differing_facts(environments: Iterable[Environment]) -> dict[str, list[str]]:
    """Return the values of each fact that is not equal in all of them, ascending by name.

    A policy that does not use KEDA has no version of it, which does not count as a difference.
    """
    every = [environment.facts for environment in environments]
    found = {}
    for name in sorted({name for facts in every for name in facts}):
        values = {facts.get(name, _MISSING) for facts in every}
        if name in _OF_SOME_POLICIES:
            values.discard(_MISSING)
        if len(values) > 1:
            found[name] = sorted(values)
    return found
