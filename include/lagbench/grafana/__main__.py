"""``python -m lagbench.grafana``: rewrite ``include/grafana/lagbench.json``."""

from __future__ import annotations

from lagbench.grafana.dashboard import dashboard_text
from lagbench.project import project_root

if __name__ == "__main__":
    path = project_root() / "include" / "grafana" / "lagbench.json"
    path.write_text(dashboard_text(), encoding="utf-8")
