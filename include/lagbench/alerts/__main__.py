"""``python -m lagbench.alerts``: rewrite ``k8s/base/monitoring/alerts.yml``."""

from __future__ import annotations

from lagbench.alerts.policy_alerts import rules_of_bench
from lagbench.alerts.rule_files import RuleGroup, as_yaml, rule_file
from lagbench.project import project_root

HEAD = """Alerts on whatever run there is, made by python -m lagbench.alerts.
Those of a policy in production: lagbench policy alerts FILE."""


def committed_text() -> str:
    """Return the content of the file."""
    return as_yaml([rule_file([RuleGroup("run", "lagbench", rules_of_bench())])], head=HEAD)


if __name__ == "__main__":
    path = project_root() / "k8s" / "base" / "monitoring" / "alerts.yml"
    path.write_text(committed_text(), encoding="utf-8")
