"""Take the pictures of README and docs: ``make pictures``, ``make pictures RUN=runs/ID``.

Those of the pages of many runs show the runs that are kept in docs/findings. With ``RUN`` those of
its report and of its live page are taken, too.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.project import PROJECT_ROOT
from tests.integration.report.chromium import Page, running_chromium
from tests.integration.report.served_live_page import served_live_page
from tests.integration.report.served_pages import LOADED, served_kept_runs

CHARTS = "section:has(#charts)"
THIRD_PANEL = "#charts .panel:nth-of-type(3)"
REPORT_PICTURES = {
    "quick_spike.png": ("light", "header", ".tiles"),
    "quick_spike_charts.png": ("light", CHARTS, THIRD_PANEL),
    "quick_spike_charts_dark.png": ("dark", CHARTS, THIRD_PANEL),
}
"""Theme, and the first and last element of each picture."""
LIVE_PICTURE = "quick_spike_live.png"
LINES_AFTER_THE_PEAK = 10
"""The live picture shows the run that many lines after the highest lag."""
SHOWN_EXPERIMENTS = (
    "reaction_parts",
    "hand_rolled",
    "signal_lag_cpu",
    "policy_swap",
    "past_p",
    "prescale",
    "fidelity_lab_spike",
)
"""Their kept runs are all runs of the pages."""
COMPARED = "compare?run=lab-sawtooth-20261126-061810-7c8f&run=lab-sawtooth-20261126-061053-2de6"
"""Pair 6 of hand_rolled: KEDA's rules, without a window and with one of 60 s."""
BENCH_PICTURES = {
    "runs.png": ("runs?policy=lab-lag", "nav", "tbody tr:nth-child(10)"),
    "compare.png": (COMPARED, "main > section:nth-of-type(3)", "tbody tr:nth-child(17)"),
    "history.png": ("history?cell=lab_spike/lab-lag/11", "nav", ".key"),
    "experiment.png": ("experiments/reaction_parts", "nav", ".stacked"),
}
"""Address, and the first and last element of each picture."""
WIDTH = 1180


def take_bench_pictures(folder: Path) -> Iterator[Path]:
    """Write the pictures of the pages of many runs into ``folder``."""
    with (
        served_kept_runs(SHOWN_EXPERIMENTS) as (bench, _),
        tempfile.TemporaryDirectory() as profile,
        running_chromium(Path(profile)) as page,
    ):
        for picture, (address, first, last) in BENCH_PICTURES.items():
            page.open(f"{bench}/{address}", width=WIDTH, drawn=LOADED)
            (folder / picture).write_bytes(page.picture(first, last))
            yield folder / picture


def take_pictures(run: RunFolder, folder: Path) -> list[Path]:
    """Write the pictures of a run into ``folder`` and return their paths."""
    with tempfile.TemporaryDirectory() as profile, running_chromium(Path(profile)) as page:
        taken = [_report_picture(page, run, folder / name) for name in REPORT_PICTURES]
        return [*taken, _live_picture(page, run, folder / LIVE_PICTURE)]


def _report_picture(page: Page, run: RunFolder, path: Path) -> Path:
    theme, first, last = REPORT_PICTURES[path.name]
    page.open(run.report.resolve().as_uri(), theme=theme)
    path.write_bytes(page.picture(first, last))
    return path


def _live_picture(page: Page, run: RunFolder, path: Path) -> Path:
    """Show a copy of the run that has only what was known shortly after the highest lag."""
    lines = run.live.read_text(encoding="utf-8").splitlines()
    lags = [json.loads(line).get("lag") or 0 for line in lines]
    known = lines[: lags.index(max(lags)) + 1 + LINES_AFTER_THE_PEAK]
    newest = json.loads(known[-1])["lag"]
    with served_live_page(run.run_id, known) as address:
        is_shown = f"document.querySelector('#figures').innerText.includes('\\n{newest:,}\\n')"
        page.open(address, drawn=f"{is_shown} && document.querySelector('#charts canvas') !== null")
        path.write_bytes(page.picture("header", THIRD_PANEL))
        page.send("Page.navigate", url="about:blank")  # ends its stream before the server's end
    return path


if __name__ == "__main__":
    pictures = PROJECT_ROOT / "docs" / "pictures"
    for picture in take_bench_pictures(pictures):
        print(picture)  # noqa: T201
    for name in sys.argv[1:]:
        for picture in take_pictures(RunFolder(Path(name)), pictures):
            print(picture)  # noqa: T201
