"""A browser for the tests of pages, and axe-core to look at them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.integration.report.chromium import Page, running_chromium

from lagbench.embedded.kafka_choice import cache_dir

Axe = Callable[[Page], Any]
AXE = "axe-core@4.14.1"
SERIOUS = """
axe.run(document, {iframes: false}).then((found) => found.violations
  .filter((one) => ['serious', 'critical'].includes(one.impact))
  .map((one) => [one.id, one.nodes.map((node) => node.html.slice(0, 120))]))
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Provide a browser, the same for all tests of a module."""
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed: apt-get install --no-install-recommends chromium")
    with running_chromium(tmp_path_factory.mktemp("chromium")) as page:
        yield page


@pytest.fixture(scope="session")
def axe() -> Axe:
    """Provide a function that returns what axe-core finds serious or critical in a page.

    npm fetches axe-core once.
    """
    folder = cache_dir() / AXE
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        if shutil.which("npm") is None:
            pytest.skip("npm is not installed: apt-get install --no-install-recommends npm")
        fetch = ["npm", "install", "--ignore-scripts", "--no-audit", "--prefix", str(folder), AXE]
        subprocess.run(fetch, check=True, timeout=300, stdin=subprocess.DEVNULL)

    def findings(page: Page) -> Any:
        page.run(f"{script.read_text(encoding='utf-8')}; 0")
        return page.run(SERIOUS)

    return findings
