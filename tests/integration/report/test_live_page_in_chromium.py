"""The live page in a real browser: what it shows of the lines that it is sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import msgspec
import pytest
from tests.eventually import eventually
from tests.fakes.live_cell import live_cell
from tests.integration.report.chromium import Page
from tests.integration.report.conftest import Axe
from tests.integration.report.served_live_page import served_live_page

from lagbench.core.live.live_line import LiveCell, LiveCourse, LiveLine, LivePhase, encode_line

pytestmark = pytest.mark.browser

S = 1_000_000_000
STATE = "(document.querySelector('#state')?.textContent ?? '')"
CELL = live_cell((10, 30))


@contextmanager
def opened(browser: Page, lines: Sequence[str], drawn: str) -> Iterator[None]:
    """Open the page of a run with these lines, and wait until ``drawn`` is true there."""
    with served_live_page("a-run", lines) as address:
        browser.open(address, drawn=drawn)
        try:
            yield
        finally:
            browser.send("Page.navigate", url="about:blank")  # ends the stream before its server


def live_page(
    browser: Page, *lines: LiveLine, cell: LiveCell = CELL
) -> AbstractContextManager[None]:
    """Open the page of a run whose first line has the cell, and wait for its charts."""
    sent = [encode_line(line).decode().strip() for line in (LiveLine(at=S, run=cell), *lines)]
    return opened(browser, sent, "document.querySelector('#charts canvas') !== null")


def charted(browser: Page, panel: str) -> list[list[str]]:
    """Return the rows of the table behind the panel whose title begins so."""
    box = f"""[...document.querySelectorAll('.panel')].find(
        (one) => one.querySelector('h3').textContent.startsWith({panel!r})).querySelector('.behind')
    """
    browser.run(f"({box}).open = true")
    cells = "(row) => [...row.cells].map((cell) => cell.textContent)"
    rows = f"[...({box}).querySelectorAll('tr')].map({cells})"
    found: list[list[str]] = eventually(lambda: browser.run(rows), "the table is filled")
    return found


@contextmanager
def polling(browser: Page, mode: str) -> Iterator[None]:
    """Let pages poll: ``fetch`` asks the server, waits in ``held``, or gets the status ``mode``."""
    script = f"""
        window.EventSource = undefined;
        window.held = [];
        window.mode = {mode!r};
        const ask = window.fetch;
        window.fetch = (address) => {{
          if (mode === "ask") return ask(address);
          if (mode === "hold") return new Promise((go) => held.push(() => go(ask(address))));
          return Promise.resolve(new Response("", {{ status: Number(mode) }}));
        }};
    """
    added = browser.send("Page.addScriptToEvaluateOnNewDocument", source=script)
    try:
        yield
    finally:
        browser.send("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])


def test_no_finding_is_serious(browser: Page, axe: Axe) -> None:
    """Nor critical, for axe-core."""
    with live_page(browser, LiveLine(at=2 * S, lag=5)):
        assert axe(browser) == []


def test_an_idle_pod_is_shown_and_one_that_left_is_not(browser: Page) -> None:
    """A pod without partitions is a member; one that comes back has a row of its own."""
    held: list[dict[str, Any]] = [
        {"a": [0], "b": [1], "c": []},
        {"a": [0, 1], "b": None},
        {"b": []},
    ]
    lines = [LiveLine(at=at * S, lag=0, assigned=one) for at, one in enumerate(held, start=2)]

    with live_page(browser, *lines):
        rows = "[...document.querySelectorAll('#pods tr')].map((row) => row.innerText)"
        assert browser.run(rows) == ["a\t0, 1", "c\tnone", "b\tnone"]
        assert charted(browser, "Assignment") == [
            ["seconds", "a", "b", "c", "b"],
            ["1", "1", "1", "0", "–"],
            ["2", "2", "–", "0", "–"],
            ["3", "2", "–", "0", "0"],
        ]


def test_the_hottest_partition_is_unknown_while_one_is(browser: Page) -> None:
    """A partition without a commit may have the highest lag, as in the report."""
    lines = [
        LiveLine(at=2 * S, lag=None, lag_by_partition=[7, None], replicas=(1, 1)),
        LiveLine(at=3 * S, lag=12, lag_by_partition=[7, 5], replicas=(1, 1)),
    ]

    with live_page(browser, *lines):
        assert charted(browser, "Lag")[-2:] == [["1", "–", "–"], ["2", "12", "7"]]


def test_the_prediction_goes_on_where_the_samples_end(browser: Page) -> None:
    """From the stream's start, in seconds since the spike; what was measured has both."""
    course = LiveCourse(every_seconds=5, lag=[0, 100, 2000, 50], replicas=[1, 1, 3, 3])
    cell = msgspec.structs.replace(CELL, predicted=course, pod_rate_per_second=250)
    lines = [
        LiveLine(at=20 * S, second=0.0, lag=0, lag_by_partition=[0, 0], replicas=(1, 1)),
        LiveLine(at=25 * S, second=5.0, lag=80, lag_by_partition=[50, 30], replicas=(1, 1)),
    ]

    with live_page(browser, *lines, cell=cell):
        lag, rates = (charted(browser, one) for one in ("Lag", "Rate"))

    assert lag == [
        ["seconds", "total", "hottest", "predicted"],
        ["-29", "–", "–", "–"],  # the line of the cell
        ["-10", "0", "0", "0"],
        ["-5", "80", "50", "100"],
        ["0", "–", "–", "2,000"],
        ["5", "–", "–", "50"],
    ]
    assert [row[-1] for row in rates] == ["capacity of the Ready pods", "–", "250", "250"]


def test_phases_that_are_events_are_named_so(browser: Page) -> None:
    """The wait for the planned end is no event; its end is one."""
    waits = LivePhase(at=3 * S, name="traffic_finished", state="started")
    ends = LivePhase(at=6 * S, name="traffic_finished", state="finished")

    with live_page(browser, LiveLine(at=3 * S, phases=[waits]), LiveLine(at=6 * S, phases=[ends])):
        box = "document.querySelector('#charts > .behind')"
        browser.run(f"{box}.open = true")
        cells = f"[...{box}.querySelectorAll('td')].map((cell) => cell.textContent)"
        shown = eventually(lambda: browser.run(cells), "the table is filled")

    assert shown == ["5", "5", "planned load ends"]


def test_a_run_with_two_groups_names_the_one_shown(browser: Page) -> None:
    """Its figures are of the first group, and its verdict is of both."""
    of_first = msgspec.structs.replace(CELL, group="first")

    with live_page(browser, LiveLine(at=2 * S, lag=0, verdict="fail"), cell=of_first):
        heads = "['#cell', '#verdict'].map((one) => document.querySelector(one).textContent)"
        shown, verdict = browser.run(heads)
        assert "first group" in shown
        assert verdict == "fail, both groups"


def test_a_server_that_answers_with_an_error_is_named(browser: Page) -> None:
    """A page that polls says so, and goes on when the server does."""
    line = encode_line(LiveLine(at=S, run=CELL)).decode().strip()
    said = "the server answers 503; trying again"

    with polling(browser, "503"), opened(browser, [line], f"{STATE} === {said!r}"):
        browser.run("mode = 'ask'")

        eventually(lambda: browser.run(STATE) == "live", "the page goes on")


def test_a_page_that_is_hidden_and_shown_takes_each_line_once(browser: Page) -> None:
    """A request that was under way when the page was hidden is asked again, and not taken twice."""
    lines = [LiveLine(at=S, run=CELL), LiveLine(at=2 * S, lag=0)]
    sent = [encode_line(line).decode().strip() for line in lines]

    with polling(browser, "hold"), opened(browser, sent, "window.held?.length === 1"):
        browser.run(
            """
            window.taken = 0;
            const take = lagbenchLive.take;
            lagbenchLive.take = (...given) => { taken += 1; take(...given); };
            for (const isHidden of [true, false]) {
              Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
              document.dispatchEvent(new Event("visibilitychange"));
            }
            """
        )
        assert browser.run("held.length") == 2

        browser.run("held.splice(0).forEach((go) => go())")

        eventually(lambda: browser.run("held.length > 0"), "the page asks again")
        assert browser.run("taken") == len(lines)
