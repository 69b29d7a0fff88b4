"""The kind of machine and the versions that made a run's numbers, from its manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lagbench.core.compare.cell_identity import content_digest
from lagbench.core.measures.model import MeasureModel

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
