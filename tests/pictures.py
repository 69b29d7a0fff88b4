"""Take the README's pictures from a run's report: ``python -m tests.pictures runs/ID``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from lagbench.project import PROJECT_ROOT
from tests.integration.report.chromium import running_chromium

PICTURES = {
    "quick_spike.png": ("light", "header", ".tiles"),
    "quick_spike_charts.png": ("light", ".toolbar", ".panel:nth-of-type(6)"),
    "quick_spike_charts_dark.png": ("dark", ".toolbar", ".panel:nth-of-type(6)"),
}
"""Theme, and the first and last element of each picture."""


def take_pictures(report: Path, folder: Path) -> list[Path]:
    """Write the pictures of ``report`` into ``folder`` and return their paths."""
    taken = []
    with tempfile.TemporaryDirectory() as profile, running_chromium(Path(profile)) as page:
        for name, (theme, first, last) in PICTURES.items():
            page.open(report.resolve().as_uri(), theme=theme)
            path = folder / name
            path.write_bytes(page.picture(first, last))
            taken.append(path)
    return taken


if __name__ == "__main__":
    for picture in take_pictures(Path(sys.argv[1]) / "report.html", PROJECT_ROOT / "docs/pictures"):
        print(picture)  # noqa: T201
