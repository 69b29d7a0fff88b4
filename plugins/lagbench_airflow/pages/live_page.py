"""Make the live page of a run: its own script and style, and the report's charts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, select_autoescape

from lagbench.report.assets import scripts, styles
from lagbench_airflow.links import public_prefix, report_path
from lagbench_airflow.pages import security_policy

_ASSETS = Path(__file__).resolve().parent / "assets"
_SCRIPTS = ("course.js", "view.js", "curves.js", "stream.js")


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
    return _page("live.html.j2", run_id=run_id, settings=_inside_script(settings))


def waiting_page() -> Page:
    """Return the page of a Dag run without a run folder; it looks again by itself."""
    return _page("waiting.html.j2")


def _page(template: str, **content: str) -> Page:
    charts, chart_styles = scripts(), styles()
    script = "\n".join(_text(name) for name in _SCRIPTS)
    style = _text("live.css")
    html = (
        _templates()
        .get_template(template)
        .render(charts=charts, script=script, chart_styles=chart_styles, style=style, **content)
    )
    headers = security_policy.of_page([charts, script], [chart_styles, style])
    return Page(html, headers)


@cache
def _templates() -> Environment:
    return Environment(loader=FileSystemLoader(_ASSETS), autoescape=select_autoescape())


@cache
def _text(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _inside_script(content: Mapping[str, str]) -> str:
    """Return JSON that no text can end: a ``<`` is written as its number."""
    return json.dumps(content).replace("<", "\\u003c")
