"""Write rules as a file for Prometheus, or as objects for its operator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from lagbench.alerts.rules import AlertRule


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """The rules of one policy, under its name and in its namespace."""

    name: str
    namespace: str
    rules: Sequence[AlertRule]

    def as_dict(self) -> dict[str, Any]:
        """Return the group in the form of a rule file."""
        return {
            "name": f"{self.namespace}/{self.name}",
            "rules": [rule.as_dict() for rule in self.rules],
        }


def rule_file(groups: Iterable[RuleGroup]) -> dict[str, Any]:
    """Return a Prometheus rule file."""
    return {"groups": [group.as_dict() for group in groups]}


def prometheus_rule(group: RuleGroup) -> dict[str, Any]:
    """Return a PrometheusRule of the Prometheus operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": f"{group.name}-alerts", "namespace": group.namespace},
        "spec": rule_file([group]),
    }


def as_yaml(documents: Iterable[dict[str, Any]], *, head: str) -> str:
    """Return YAML below comment lines; multi-line expressions stay multi-line."""
    lines = "".join(f"# {line}\n" for line in head.splitlines())
    return lines + yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=110)


class _Dumper(yaml.SafeDumper):
    """Writes multi-line texts as blocks, and indents lists."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
