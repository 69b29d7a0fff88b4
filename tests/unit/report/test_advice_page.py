"""The page of an advice."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.advices import advice, candidate

from lagbench.catalog.catalog import policy_file
from lagbench.core.advice.model import Advice, Candidate, RobustRow
from lagbench.core.simulation.simulation_measures import Spread
from lagbench.report.advice_page import write_advice
from lagbench.results.advice_files import AdviceFolder


def placed(name: str, cost: float, value: float, *, holds: bool = True) -> Candidate:
    """Return a candidate at this place of the chart."""
    one = candidate(name, "lag-quick")
    shown = {"pod_minutes": Spread(cost, cost, cost), "slo_value": Spread(value, value, value)}
    results = (one.results[0].model_copy(update={**shown, "real_range": (value - 1, value + 2)}),)
    return one.model_copy(update={"results": results, "holds": holds})


def page(folder: Path, given: Advice) -> str:
    """Write the page and return it."""
    files = AdviceFolder.create(["a"], at=folder, now=datetime.now(UTC))
    present = policy_file("lag-default").read_bytes()
    write_advice(files, given, present=present, command="lagbench advise a --slo b=<1>")
    return files.page.read_text()


@pytest.mark.parametrize("values", [(30.0, 20.0, 15.0), (900.0, 20.0, 0.2)])
def test_the_front_shows_each_policy_in_its_place(
    tmp_path: Path, values: tuple[float, float, float]
) -> None:
    """Costs go to the right and time lag upwards, on any scale; labels are of those with a role."""
    front = (
        placed("lag-a", 10, values[0], holds=False),
        placed("lag-b", 12, values[1]),
        placed("lag-c", 20, values[2]),
    )
    given = advice(front=front, pick=front[1], runner_up=front[2], knee="lag-b")
    rows = tuple(
        RobustRow(candidate=one.name, variant="seed 2", scenario="quick_spike", value=9, holds=True)
        for one in front[1:]
    )
    html = page(tmp_path, given.model_copy(update={"robust": rows}))

    circles = {
        name: (kind, float(x), float(y))
        for kind, x, y, name in re.findall(
            r'<circle class="([^"]+)" cx="([\d.]+)" cy="([\d.]+)" r="[\d.]+"><title>([^:]+)', html
        )
    }
    assert circles["lag-a"][0] == "front no"
    assert circles["lag-b"][0] == "pick"
    across = [circles[one.name][1] for one in front]
    down = [circles[one.name][2] for one in front]
    assert across == sorted(across)
    assert down == sorted(down)
    labels = re.findall(r'<text class="label"[^>]*>([^<]+)', html)
    assert {*labels} == {"pick lag-b", "runner-up lag-c", "present policy present"}
    assert "src=" not in html  # nothing is loaded
    assert "b=&lt;1&gt;" in html
    assert "--prove" in html


@pytest.mark.parametrize(
    "changed",
    [
        {"outcome": "no_policy", "pick": None, "runner_up": None},
        {"outcome": "not_enough_data", "pick": None, "present": None, "runner_up": None},
    ],
)
def test_an_answer_without_a_policy_has_a_page(tmp_path: Path, changed: dict[str, Any]) -> None:
    """It gives the reasons, and no empty sections."""
    html = page(tmp_path, advice(reasons=("too few partitions",), **changed))

    assert "too few partitions" in html
    assert "<svg" not in html
    assert 'id="changes"' not in html
