"""A report in a real browser as the bench serves it: it draws, and has no one's session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from tests.integration.report.chromium import Page
from tests.integration.report.served_live_page import served_bench
from tests.integration.report.test_page_in_chromium import INKED, reported_run

from lagbench.adapters.runs.run_folder import RUNS_DIR_VARIABLE

pytestmark = pytest.mark.browser

HOSTILE = """<script>
const tries = [
  () => fetch("/answer", { credentials: "include" }).then((answer) => answer.text()),
  () => Promise.resolve(parent.document.title),
  () => Promise.resolve(localStorage.length),
  () => Promise.resolve(document.cookie),
];
Promise.all(tries.map((one) => new Promise((go) => go(one())).catch(() => "refused")))
  .then((said) => parent.postMessage(said.join(" "), "*"));
</script>"""
AROUND = """<title>waiting</title>
<script>window.onmessage = (said) => { document.title = said.data; };</script>
<iframe sandbox="allow-scripts allow-same-origin allow-forms allow-downloads"
 src="/bench/runs/hostile/report.html"></iframe>"""
"""The page of Airflow with the tab, as Airflow makes its frame."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Serve a real run and a hostile one beside a page with a session."""
    app = FastAPI()

    @app.get("/around")
    def around() -> HTMLResponse:
        page = HTMLResponse(AROUND)
        page.set_cookie("session", "the reader's", samesite="lax")
        return page

    @app.get("/answer")
    def answer(request: Request) -> str:
        return f"answered {request.cookies.get('session')}"

    reported_run(tmp_path / "made").path.rename(tmp_path / "real")
    (tmp_path / "hostile").mkdir()
    (tmp_path / "hostile" / "report.html").write_text(HOSTILE)
    with patch.dict("os.environ", {RUNS_DIR_VARIABLE: str(tmp_path)}), served_bench(app) as bench:
        yield bench


def test_a_report_draws_in_its_sandbox(browser: Page, address: str) -> None:
    """All panels, without a problem that the policy makes."""
    browser.open(f"{address}/runs/real/report.html")

    assert browser.run(INKED) == [True] * 5
    assert browser.run("origin") == "null"
    assert browser.problems == []


def test_a_hostile_report_has_not_the_reader_s_session(browser: Page, address: str) -> None:
    """Neither the server's answers, nor the page around it, nor what the origin keeps."""
    around = f"{address.removesuffix('/bench')}/around"
    browser.open(
        around, drawn="document.title.includes('refused') || document.title.includes('answer')"
    )

    assert browser.run("document.title") == "refused refused refused refused"
