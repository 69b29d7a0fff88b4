"""Identify the runs of one cell: same load, consumers, policy, seed, target and fidelity.

Only runs of the same cell are compared. Policy and target are digests, because a run folder names
no machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from lagbench.core.measures.model import Fidelity, MeasureModel
from lagbench.core.scenario.scenario import Scenario

NOT_RUN = {"description", "policy", "slos", "seed"}
"""Scenario fields that do not affect a run: its text, the policy's name, the verdict's limits.
The seed is added separately below, even if it is the default."""

_CONTENT = (("consumer", "manifest", "manifest_sha256"), ("payload", "file", "sha256"))
"""The user's files in a scenario: part, field of the path, and that of the content's digest."""

_EARLIER_NAMES = {"graceful_shutdown": "drain", "shutdown_timeout_seconds": "drain_timeout_seconds"}
"""Names of the consumer's settings with which the digests of earlier nights were made."""

_CLUSTER = "cluster.kubernetes"
_MACHINE = ("processor", "cores", "architecture", "system", "kernel")

_OF_SOME_POLICIES = {"versions.keda", "versions.keda-rules"}
"""Recorded for a ScaledObject only, as unknown if unreadable; an HPA is of Kubernetes alone."""

KUBERNETES_RULES = "versions.kubernetes-rules"
"""The policy names it, or it is the bench's own, which is compared as that of its API server."""

_MISSING = "not recorded"


def flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return each value of nested mappings by its dotted name."""
    found: dict[str, Any] = {}
    for name, value in content.items():
        dotted = f"{prefix}{name}"
        found |= flat(value, f"{dotted}.") if isinstance(value, Mapping) else {dotted: value}
    return found


def flat_manifest(content: Mapping[str, Any]) -> dict[str, str]:
    """Return each value of the manifest by its dotted name, as text; ``None`` is left out."""
    return {name: str(value) for name, value in flat(content).items() if value is not None}


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
    for name in NOT_RUN:  # the second group's policy is in the digest of the policies
        effective.get("second_group", {}).pop(name, None)
    consumer = effective.get("consumer", {})
    for name, earlier in _EARLIER_NAMES.items():
        if name in consumer:
            value = consumer.pop(name)
            consumer[earlier] = ("off", "on")[value] if isinstance(value, bool) else value
    return content_digest(
        {
            "scenario": effective,
            "seed": scenario.seed,
            "policy": policy_digest,
            "target": target_digest,
            "fidelity": fidelity,
        }
    )


def files_by_content(dumped: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dumped scenario in which the digest of a user's file stands for its path.

    The same file in another folder or on another machine makes the same cell. The file of secrets
    does not count: a run folder has no digest of it.
    """
    found = {k: dict(part) if isinstance(part, Mapping) else part for k, part in dumped.items()}
    for name, path, digest in _CONTENT:
        part = found.get(name) or {}
        if part.get(digest) is not None:
            part[path] = part.pop(digest)
    (found.get("consumer") or {}).pop("env_file", None)
    return found


class Environment(MeasureModel):
    """Names and values that must be equal for two runs to be compared.

    ``facts`` holds the kind of machine and each recorded version. Host names are in no run folder,
    so two machines of one kind are one environment. The measured speed of a core is left out, since
    it differs a little with each measurement.
    """

    facts: dict[str, str]

    @classmethod
    def of_manifest(cls, manifest: Mapping[str, Any]) -> Environment:
        """Return the environment that the manifest records, nested or flat; it may lack values."""
        every = flat_manifest(manifest)
        wanted = {_CLUSTER, *(f"machine.{name}" for name in _MACHINE)}
        facts = {n: v for n, v in every.items() if n in wanted or n.startswith("versions.")}
        if memory := every.get("machine.memory_bytes"):
            facts["machine.memory_gibibytes"] = str(round(int(memory) / 2**30))
        return cls(facts=dict(sorted(facts.items())))

    def changes(self, other: Environment, varied: Collection[str] = ()) -> list[str]:
        """Return a text for each fact that differs: ``machine.cores: 2 against 4``."""
        return [
            f"{name}: {self.facts.get(name, _MISSING)} against {other.facts.get(name, _MISSING)}"
            for name in differing_facts((self, other))
            if not is_named(name, varied)
        ]


def is_named(name: str, fields: Collection[str]) -> bool:
    """Return whether a dotted name is one of ``fields``, or below one."""
    return any(name == field or name.startswith(f"{field}.") for field in fields)


def differing_facts(environments: Iterable[Environment]) -> dict[str, list[str]]:
    """Return the values of each fact that is not equal in all of them, ascending by name.

    A policy that does not use KEDA has no version of it, which does not count as a difference.
    """
    every = [environment.facts for environment in environments]
    found = {}
    for name in sorted({name for facts in every for name in facts} - {KUBERNETES_RULES}):
        values = {facts.get(name, _MISSING) for facts in every}
        if name in _OF_SOME_POLICIES:
            values.discard(_MISSING)
        if len(values) > 1:
            found[name] = sorted(values)
    return found
