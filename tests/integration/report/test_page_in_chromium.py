"""The report in a real browser: it draws, answers mouse and keyboard, and loads nothing."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.eventually import eventually
from tests.fakes.run_folder_builder import quick_spike_run
from tests.integration.report.chromium import DRAWN, Page
from tests.integration.report.conftest import Axe

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures.measures import Measures
from lagbench.report.page import write_report
from lagbench.report.series import RunSeries, read_series
from lagbench.results.measure_run import judge_run, measure_run

pytestmark = pytest.mark.browser

PLOT = "document.querySelectorAll('.plot')[{}]"
SHOWN = "lagbench.report.shown()"
INKED = """
  [...document.querySelectorAll('.plot canvas')].map((canvas) => {
    const box = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    return new Set(new Uint32Array(box.buffer)).size > 20;
  })
"""
"""Whether each canvas has more colours than an empty one."""
OF_THE_LINE = """
  (() => {
    const canvas = document.querySelectorAll('.plot canvas')[3];
    const box = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const ink = document.createElement('canvas').getContext('2d');
    ink.fillStyle = lagbench.theme.ink('main');
    ink.fillRect(0, 0, 1, 1);
    const [wanted] = new Uint32Array(ink.getImageData(0, 0, 1, 1).data.buffer);
    return new Uint32Array(box.buffer).filter((colour) => colour === wanted).length;
  })()
"""
"""How many pixels of the time lag's panel have the colour of its line."""


def reported_run(root: Path) -> RunFolder:
    """Write a run of quick_spike with its report."""
    made: RunFolder = quick_spike_run().write(root)
    measure_run(made)
    judge_run(made)
    write_report(made)
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Provide a run with its report."""
    return reported_run(tmp_path_factory.mktemp("runs"))


def address(folder: RunFolder, query: str = "") -> str:
    """Return the report's address."""
    return folder.report.resolve().as_uri() + query


def changed_block(folder: RunFolder, name: str, change: Callable[[dict[str, Any]], None]) -> str:
    """Write the report with another data block, and return its address."""
    page = folder.report.read_text(encoding="utf-8")
    begin, data, end = re.split(r'(?<=id="run-data">)(.*?)(?=</script>)', page, flags=re.DOTALL)
    block = json.loads(data)
    change(block)
    changed = folder.path / name
    changed.write_text(begin + json.dumps(block) + end, encoding="utf-8")
    return changed.resolve().as_uri()


def series_of(folder: RunFolder) -> RunSeries:
    """Return what the page draws."""
    return read_series(folder, Measures.model_validate(folder.read_json(folder.measures)))


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder over HTTP on loopback; frames of files have no common origin."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def box_of(page: Page, plot: int) -> dict[str, Any]:
    """Return the place of a plot's inner part on the screen, scrolled into sight."""
    over = f"{PLOT.format(plot)}.querySelector('.u-over')"
    page.run(f"{over}.scrollIntoView({{block: 'center'}})")
    found: dict[str, Any] = page.run(f"{over}.getBoundingClientRect().toJSON()")
    return found


def test_it_draws_its_panels_and_loads_nothing(browser: Page, folder: RunFolder) -> None:
    """Its own policy lets its script and style run; no error, no request but the file itself."""
    browser.open(address(folder))

    assert browser.run(INKED) == [True] * 5
    assert browser.problems == []
    assert browser.loaded == [address(folder)]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_finding_is_serious(browser: Page, folder: RunFolder, axe: Axe, theme: str) -> None:
    """Nor critical, for axe-core."""
    browser.open(address(folder), theme=theme)

    assert axe(browser) == []


def test_a_panel_without_a_value_is_hidden_and_named(browser: Page, folder: RunFolder) -> None:
    """An observed run, whose messages have no time lag, shows no empty chart of it."""

    def without_time_lag(block: dict[str, Any]) -> None:
        latency = block["tables"]["latency"]
        latency["columns"] = {name: [None] * len(latency["ms"]) for name in latency["columns"]}

    browser.open(changed_block(folder, "without_time_lag.html", without_time_lag))

    hidden = "[...document.querySelectorAll('.panel[hidden] h3')].map((head) => head.textContent)"
    assert browser.run(hidden) == ["Time lag p99 seconds"]
    axis = browser.run("document.querySelector('.axis-name').textContent")
    assert axis.endswith(": Time lag p99")


def test_a_chart_says_its_lines_and_limits(browser: Page, folder: RunFolder) -> None:
    """Its label names the highest values and the limits; a line without a value has no entry."""

    def known(block: dict[str, Any]) -> None:
        block["limits"] = [{"name": "time_lag_p99_seconds", "number": 5}]
        ms = block["tables"]["lag"]["ms"]
        block["tables"]["predicted"] = {"ms": ms[:1], "columns": {"lag": [123456], "replicas": [7]}}

    browser.open(changed_block(folder, "read_against.html", known))
    labels = browser.run(
        "[...document.querySelectorAll('.plot')].map((plot) => plot.getAttribute('aria-label'))"
    )
    entries = """[...document.querySelectorAll('.panel')].map((panel) =>
        [...panel.querySelectorAll('.entry:not([hidden])')].map((one) => one.textContent))"""

    lag, replicas, rates, time_lag = browser.run(entries)[:4]
    assert lag == ["total", "hottest partition", "predicted"]
    assert replicas == ["desired", "ready", "predicted, desired"]
    assert rates == ["produced", "consumed", "capacity of the Ready pods"]
    assert time_lag == ["p99"]
    assert "predicted 123,456 (at " in labels[0]
    assert "desired 12 (at " in labels[1]
    assert "limit of p99: 5 s" in labels[3]
    browser.open(address(folder))
    assert browser.run(entries)[0] == ["total", "hottest partition"]


def test_a_step_of_the_replicas_tells_its_cause(browser: Page, folder: RunFolder) -> None:
    """Beside the pointer, and in the table of events."""
    browser.open(address(folder))
    first = browser.run("JSON.parse(document.getElementById('run-data').textContent).events")
    step = first["changes"][0]
    text = f"replicas {step['before']} → {step['after']}: {step['cause']}"
    assert "lag metric" in step["cause"]
    box = box_of(browser, 1)
    shown = browser.run(SHOWN)
    share = (step["at"] / 1000 - shown["min"]) / (shown["max"] - shown["min"])

    browser.mouse("mouseMoved", box["x"] + box["width"] * share, box["y"] + 50)

    hint = "document.querySelector('.hint:not([hidden])').textContent"
    assert eventually(lambda: browser.run(hint), "the cause is shown").startswith(text)
    browser.run("document.querySelector('#charts > .behind').open = true")
    cells = "[...document.querySelectorAll('#charts > .behind td')].map((cell) => cell.textContent)"
    assert text in eventually(lambda: browser.run(cells), "the table is filled")


def test_a_sample_between_two_gaps_is_drawn_as_a_point(browser: Page, folder: RunFolder) -> None:
    """No line leads to it: a run that does a message now and then would show nothing."""
    inked = []
    for every in (2, 1 << 30):

        def lone(block: dict[str, Any], every: int = every) -> None:
            latency = block["tables"]["latency"]
            values = [5 if at % every == 1 else None for at in range(len(latency["ms"]))]
            latency["columns"]["p99"] = values

        browser.open(changed_block(folder, "lone_samples.html", lone))
        inked.append(browser.run(OF_THE_LINE))

    assert inked[0] > inked[1] > 0


def test_the_arrows_read_the_samples(browser: Page, folder: RunFolder) -> None:
    """Each press moves the cursor by a sample, and its values are said and shown."""
    browser.open(address(folder))
    series = series_of(folder)
    browser.run(f"{PLOT.format(0)}.focus()")

    browser.press("ArrowRight", times=12)

    said = browser.run("document.querySelector('.spoken').textContent")
    second, lag = series.lines["lag"]["total"].seconds[11], series.lines["lag"]["total"].values[11]
    assert said.startswith(f"{second:.1f} seconds: total {lag:,.0f}, ")
    shown = browser.run("document.querySelector('.legend .value').textContent")
    assert shown == f"{lag:,.0f}"


def test_a_drag_zooms_all_panels(browser: Page, folder: RunFolder) -> None:
    """The dragged part fills the view of every panel; a double click shows everything again."""
    browser.open(address(folder))
    whole = browser.run(SHOWN)
    box = box_of(browser, 1)
    y = box["y"] + box["height"] / 2
    quarter, half = box["x"] + box["width"] / 4, box["x"] + box["width"] / 2

    browser.mouse("mouseMoved", quarter, y)
    browser.mouse("mousePressed", quarter, y)
    browser.mouse("mouseMoved", half, y)
    browser.mouse("mouseReleased", half, y)

    length = whole["max"] - whole["min"]
    zoomed = browser.run(SHOWN)
    assert zoomed["min"] == pytest.approx(whole["min"] + length / 4, abs=length / 50)
    assert zoomed["max"] == pytest.approx(whole["min"] + length / 2, abs=length / 50)
    for count in (1, 2):
        browser.mouse("mousePressed", half, y, clicks=count)
        browser.mouse("mouseReleased", half, y, clicks=count)
    assert browser.run(SHOWN) == whole


def test_plus_and_escape_zoom(browser: Page, folder: RunFolder) -> None:
    """Plus halves what is shown, Escape shows everything."""
    browser.open(address(folder))
    whole = browser.run(SHOWN)
    browser.run(f"{PLOT.format(0)}.focus()")

    browser.press("+")
    zoomed = browser.run(SHOWN)
    browser.press("Escape")

    assert zoomed["max"] - zoomed["min"] == pytest.approx((whole["max"] - whole["min"]) / 2)
    assert browser.run(SHOWN) == whole


def test_a_table_stands_behind_each_chart(browser: Page, folder: RunFolder) -> None:
    """Opened, it has a row per sample, up to a page of them."""
    browser.open(address(folder))

    browser.run("document.querySelectorAll('.behind').forEach((box) => { box.open = true; })")

    counted = (
        "[...document.querySelectorAll('.behind')].map((b) => b.querySelectorAll('tr').length)"
    )
    rows = eventually(lambda: all(found := browser.run(counted)) and found, "every table is filled")
    assert len(rows) == 6  # five panels, and the events
    assert rows[0] == min(series_of(folder).lines["lag"]["total"].seconds.size, 100) + 1


@pytest.mark.parametrize(
    ("system", "query", "theme"),
    [("light", "", "light"), ("dark", "", "dark"), ("dark", "?theme=light", "light")],
)
def test_the_theme_follows(
    browser: Page, folder: RunFolder, system: str, query: str, theme: str
) -> None:
    """The system decides, unless the address does."""
    browser.open(address(folder, query), theme=system)

    assert browser.run("document.documentElement.dataset.theme") == theme
    paper = browser.run("getComputedStyle(document.querySelector('section')).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(27, 34, 41)"}[theme]


def test_the_theme_is_airflows_inside_airflow(browser: Page, folder: RunFolder) -> None:
    """In a frame the report takes the theme of the page around it, and follows its changes."""
    around = "<html class='dark'><iframe src='report.html'></iframe></html>"
    (folder.path / "around.html").write_text(around)
    frame = "document.querySelector('iframe')?.contentWindow"  # none while the page is read
    theme = f"{frame}.document.documentElement.dataset.theme"

    with served(folder.path) as root:
        browser.open(f"{root}/around.html", drawn=f"{frame}.{DRAWN}")
        first = browser.run(theme)
        browser.run("localStorage.setItem('theme', 'light')")
        eventually(lambda: browser.run(theme) == "light", "the frame follows")

    assert first == "dark"


def test_a_narrow_window_needs_no_scrolling_aside(browser: Page, folder: RunFolder) -> None:
    """On a phone the page is not wider than the window, and no column of a table is cut."""
    browser.open(address(folder), width=390)

    widths = browser.run(
        "(({scrollWidth, clientWidth}) => [scrollWidth, clientWidth])(document.documentElement)"
    )
    assert widths[0] == widths[1] <= 390
    cut = "[...document.querySelectorAll('.wide')].filter((e) => e.scrollWidth > e.clientWidth)"
    assert browser.run(f"{cut}.length") == 0
    assert browser.run("document.querySelector('.stacked:not(.verdicts) td').dataset.label")


def test_paper_has_at_most_five_pages(browser: Page, folder: RunFolder) -> None:
    """Manifest, scenario and policy are closed; no number is broken."""
    browser.open(address(folder))
    assert browser.run("document.querySelectorAll('details[open]').length") == 0

    pdf = base64.b64decode(browser.send("Page.printToPDF", printBackground=True)["data"])

    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 5
    browser.send("Emulation.setEmulatedMedia", media="print")
    broken = "[...document.querySelectorAll('td.n')].map((e) => getComputedStyle(e).whiteSpace)"
    assert set(browser.run(broken)) == {"nowrap"}


def test_charts_grow(browser: Page, folder: RunFolder) -> None:
    """Samples are appended, one that comes twice counts once, and a name stays text."""
    browser.open(address(folder))
    name = "<img src=x>"
    browser.run(
        f"""
        window.root = document.createElement('div'); document.querySelector('main').append(root);
        window.grown = lagbench.charts(root, {{}});
        grown.append({{lag: {{ms: [0, 1000], columns: {{total: [5, 7]}}}}}});
        grown.append({{lag: {{ms: [1000, 2000], columns: {{total: [9, 11]}}}}}});
        grown.setPods([{{pod: {name!r}, ms: [0], partitions: [4], gone: null}}]);
        root.querySelector('.behind').open = true; true
        """
    )

    text = "[...root.querySelectorAll('.behind tr')].map((row) => row.textContent)"
    rows = eventually(lambda: browser.run(text), "the table is filled")
    assert rows == ["secondstotalhottest", "05–", "17–", "211–"]
    assert browser.run("grown.shown()") == {"min": 0, "max": 2}
    assert browser.run("root.querySelectorAll('img').length") == 0


def test_destroyed_charts_are_quiet(browser: Page, folder: RunFolder) -> None:
    """Charts that were taken away draw no more: not for a theme, paper, or samples on their way."""
    browser.open(address(folder))
    browser.run(
        """
        window.drawn = 0;
        const context = CanvasRenderingContext2D.prototype, clear = context.clearRect;
        context.clearRect = function (...box) { drawn++; clear.apply(this, box); };
        window.change = () => {
          const names = ['storage', 'beforeprint', 'afterprint'];
          names.forEach((name) => dispatchEvent(new Event(name)));
          return new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
        };
        change()
        """
    )
    alive = browser.run("drawn")

    browser.run(
        """
        lagbench.report.append({lag: {ms: [1e9], columns: {total: [1]}}});
        lagbench.report.destroy();
        drawn = 0;
        change()
        """
    )

    assert alive > 0
    assert browser.run("drawn") == 0
    assert browser.problems == []
