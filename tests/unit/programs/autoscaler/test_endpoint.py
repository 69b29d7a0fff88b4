"""What the autoscaler's pod answers over HTTP."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lagbench.programs.autoscaler.__main__ import routes_of


@pytest.mark.parametrize(("is_ready", "status", "value"), [(True, 200, "1"), (False, 503, "0")])
def test_its_gauge_says_what_its_probe_says(is_ready: bool, status: int, value: str) -> None:
    """A scraper gets one gauge, 1 when ready and 0 when not, and always an answer."""
    operator: Any = SimpleNamespace(is_ready=is_ready)
    routes = routes_of(operator)

    code, body = routes["/metrics"]()

    assert routes["/ready"]()[0] == status
    assert code == 200
    assert body.decode().splitlines()[-1] == f"lagbench_autoscaler_ready {value}"
    assert body.decode().splitlines()[0] == "# TYPE lagbench_autoscaler_ready gauge"
