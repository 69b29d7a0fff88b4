"""The pages of many runs in a real browser: axe-core looks at them, and one goes on by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.fakes.advices import advice
from tests.fakes.nights import rehearse
from tests.integration.report.chromium import Page
from tests.integration.report.conftest import Axe
from tests.integration.report.served_pages import LOADED, served_kept_runs

from lagbench.report.advice_page import write_advice
from lagbench.results.advice_files import AdviceFolder
from lagbench_airflow.pages import report_app
from lagbench_airflow.pages.airflow_runs import NightCell

pytestmark = pytest.mark.browser
NIGHT_CELL = "history?cell=quick_spike/p/%E2%80%93"
PAIR = "run=lab-sawtooth-20261126-061810-7c8f&run=lab-sawtooth-20261126-061053-2de6"
PLACES = (
    "runs",
    "runs?q=nothing",
    f"compare?{PAIR}",
    "compare?run=one",
    "history",
    NIGHT_CELL,
    f"{NIGHT_CELL}&accepted=night-1",
    "experiments",
    "experiments/hand_rolled",
    "advice",
    "advice/a-1/advice.html",
    "plan",
    "plan?scenario=hello",
    "plan?scenario=none",
    "report/daily_spike_rehearsal/n",
    "report/scenario_run/none",
)


@pytest.fixture(scope="module")
def bench() -> Iterator[tuple[str, Path]]:
    """Serve kept runs, nights of which one can be accepted, an advice, and a night of two cells."""
    cells = [NightCell(f"rehearsal__{n}", "failed", {"scenario": "hello"}) for n in (1, 2)]
    with (
        pytest.MonkeyPatch.context() as patch,
        served_kept_runs(["hand_rolled"]) as (address, root),
    ):
        patch.setattr(report_app, "rehearsals", lambda _: cells)
        for number in (1, 2):
            rehearse(root, f"night-{number}", created_at=number)
        folder = AdviceFolder(root / "_advice" / "a-1")
        folder.path.mkdir(parents=True)
        write_advice(folder, advice(), present=None, command="lagbench advise quick_spike")
        yield address, root


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("place", PLACES)
def test_no_finding_is_serious(
    browser: Page, bench: tuple[str, Path], axe: Axe, place: str, theme: str
) -> None:
    """Nor critical: names, roles, contrast, and what a keyboard reaches."""
    browser.open(f"{bench[0]}/{place}", theme=theme, drawn=LOADED)

    assert axe(browser) == []


def test_a_page_that_waits_goes_on_by_itself(browser: Page, bench: tuple[str, Path]) -> None:
    """It loads again when the server has something else, and only then."""
    address, root = bench
    browser.open(f"{address}/report/scenario_run/awaited", drawn=LOADED)
    browser.run("window.isFirst = true; 0")
    asked = "performance.getEntriesByType('resource').length"
    eventually(lambda: browser.run(asked) >= 1, "the page looks again")
    assert browser.run("window.isFirst")

    folder = root / "awaited-run"
    folder.mkdir()
    (folder / "report.html").write_text("<p>the report</p>")
    (folder / "conf.json").write_text('{"dag_run": "awaited"}')

    shown = "document.body?.innerText"  # while the page loads again, it has no body
    eventually(lambda: browser.run(shown) == "the report", "the report is there")
