"""The frame of the pages that show many runs: navigation, theme, and nothing from elsewhere.

Each page is a pure function of what was read, as a file (without ``prefix``) or below the path at
which a server publishes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from urllib.parse import urlencode

import jinja2

from lagbench.report.page import environment, inline, own_scripts, own_styles

PLACES: Mapping[str, str] = {
    "runs": "Runs",
    "history": "History",
    "experiments": "Experiments",
    "advice": "Advice",
    "plan": "Plan",
}
"""The pages of the navigation by their path, with their titles."""


def render_bench_page(
    template: str, *, title: str, here: str = "", prefix: str | None = None, **content: object
) -> str:
    """Return the HTML of the template ``bench/NAME.html.j2``.

    :param here: the place of the navigation that it belongs to.
    :param prefix: the path below which the other pages are; None: the page is a file of its own.
    """
    script = own_scripts("theme", "tables", "bench")
    style = own_styles("theme", "page", "charts", "bench", "print")
    content |= inline(script, style, own="'none'" if prefix is None else "'self'")
    content |= {"title": title, "here": here, "prefix": prefix, "places": PLACES}
    return _templates().get_template(f"bench/{template}.html.j2").render(content)


def link(prefix: str | None, place: str, **query: object) -> str:
    """Return the address of a page; a value that is empty is left out of its query."""
    given = urlencode({name: value for name, value in query.items() if value}, doseq=True)
    return f"{prefix or ''}/{place}{'?' if given else ''}{given}"


@cache
def _templates() -> jinja2.Environment:
    made = environment()
    made.globals["link"] = link
    return made
