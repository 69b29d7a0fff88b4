"""Make the live page of a run: its own script and style, and the report's charts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from lagbench.report.assets import scripts, styles
from lagbench_airflow.links import public_prefix, report_path
from lagbench_airflow.pages.security_policy import of_page

_ASSETS = Path(__file__).resolve().parent / "assets"
_LIVE_SCRIPTS = ("course.js", "view.js", "curves.js", "stream.js")
_THEME_SCRIPTS = ("theme.js",)


@dataclass(frozen=True, slots=True)
class Page:
    """A page and its headers."""

    html: str
    headers: Mapping[str, str]


def live_page(run_id: str) -> Page:
    """Return the page of a run in progress; names in it come by the stream, as text."""
    settings = {
        "run": run_id,
        "events": f"{public_prefix()}/live/{run_id}/events",
        "lines": f"{public_prefix()}/live/{run_id}/lines",
        "report": report_path(run_id),
    }
    content = {"run_id": run_id, "settings": _inside_script(settings)}
    return _page("live.html.j2", _LIVE_SCRIPTS, **content)


def waiting_page() -> Page:
    """Return the page of a Dag run without a run folder; it looks again by itself."""
    return _page("waiting.html.j2", _THEME_SCRIPTS)


def no_report_page() -> Page:
    """Return the page of a run of a Dag whose runs have no report."""
    return _page("no_report.html.j2", _THEME_SCRIPTS)


def _page(template: str, own_scripts: Sequence[str], **content: str) -> Page:
    charts, chart_styles = scripts(), styles()
    script = "\n".join(_text(name) for name in own_scripts)
    style = _text("live.css")
    html = (
        _templates()
        .get_template(template)
        .render(charts=charts, script=script, chart_styles=chart_styles, style=style, **content)
    )
    headers = of_page([charts, script], [chart_styles, style])
    return Page(html, headers)


@cache
def _templates() -> Environment:
    return Environment(loader=FileSystemLoader(_ASSETS), autoescape=True)


@cache
def _text(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _inside_script(content: Mapping[str, str]) -> str:
    """Return JSON that no text can end: a ``<`` is written as its number."""
    return json.dumps(content).replace("<", "\\u003c")
