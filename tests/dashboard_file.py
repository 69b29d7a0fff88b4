"""The committed dashboard, its queries and the metrics that they name; and the alert rules."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from lagbench.alerts import AlertRule
from lagbench.project import PROJECT_ROOT

DASHBOARD_FILE = PROJECT_ROOT / "include" / "grafana" / "lagbench.json"

_SELECTED = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{")
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_FROM_KEDA = "keda_"


@dataclass(frozen=True, slots=True)
class DashboardQuery:
    """One query of a panel or an annotation."""

    where: str
    expr: str
    legend: str

    @property
    def metrics(self) -> set[str]:
        """The names of the series that it selects."""
        return set(_SELECTED.findall(self.expr))

    @property
    def legend_labels(self) -> set[str]:
        """The labels that the names of its results are made of."""
        return set(_PLACEHOLDER.findall(self.legend))

    @property
    def is_of_keda(self) -> bool:
        """Whether it asks for what only KEDA tells."""
        return all(name.startswith(_FROM_KEDA) for name in self.metrics)


def committed_dashboard() -> dict[str, Any]:
    """Return the committed file."""
    dashboard: dict[str, Any] = json.loads(DASHBOARD_FILE.read_text(encoding="utf-8"))
    return dashboard


def dashboard_queries() -> Sequence[DashboardQuery]:
    """Return every query of the committed dashboard."""
    dashboard = committed_dashboard()
    of_panels = [
        DashboardQuery(
            f"{panel['title']} {target['refId']}", target["expr"], target["legendFormat"]
        )
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    ]
    of_annotations = [
        DashboardQuery(f"annotation {note['name']}", note["expr"], note["titleFormat"])
        for note in dashboard["annotations"]["list"]
    ]
    return [*of_panels, *of_annotations]


def committed_rules() -> list[AlertRule]:
    """Return the alert rules for any run."""
    text = (PROJECT_ROOT / "k8s/base/monitoring/alerts.yml").read_text(encoding="utf-8")
    (group,) = yaml.safe_load(text)["groups"]
    return [
        AlertRule(
            rule["alert"],
            rule["labels"]["severity"],
            int(rule["for"].removesuffix("s")),
            rule["expr"],
            rule["annotations"]["summary"],
            rule["annotations"]["description"],
        )
        for rule in group["rules"]
    ]
