"""A browser for the tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from tests.integration.report.chromium import Page, running_chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Provide a browser, the same for all tests of a module."""
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed: apt-get install --no-install-recommends chromium")
    with running_chromium(tmp_path_factory.mktemp("chromium")) as page:
        yield page
