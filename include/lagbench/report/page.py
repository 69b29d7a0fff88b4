"""Render measures, verdict and figures into one self-contained page."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.catalog.catalog import load_policy
from lagbench.catalog.catalog_files import from_home, is_path, list_policies
from lagbench.core.compare.earlier_runs import differences
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.rebalance_episodes import SCALE_STEPS
from lagbench.core.policy.policy import Policy, check_fit
from lagbench.core.simulation.model_error import error_text
from lagbench.core.simulation.prediction import (
    PREDICTED,
    Residual,
    RunPrediction,
    predict,
    residuals,
)
from lagbench.core.verdict.in_words import in_words
from lagbench.core.verdict.slo import SloStatus
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import LagbenchError
from lagbench.printed_commands import runnable
from lagbench.project import HOME
from lagbench.report.next_steps import MOST_CHEAPER, NextStep, cheaper_policies, next_steps
from lagbench.report.series import RunSeries, data_block, read_series
from lagbench.report.step_strip import step_strip
from lagbench.report.time_lag_histogram import histogram, seconds_text
from lagbench.report.words import explained
from lagbench.results.cell_run import read_scenario
from lagbench.results.gate import read_record
from lagbench.results.history import read_earlier
from lagbench.results.observed_run import POLICY_CHECK_FILE, REPLAY_FILE
from lagbench.results.read_run import read_policy
from lagbench.results.run_prediction import read_prediction

UNKNOWN = "–"

_PHASES = 4
"""Of the HPA's sync, in which a policy is simulated before it is suggested."""
STATUSES = ("fail", "warn", "undetermined", "pass", "not_judged")
"""The order of the SLOs on the page: what decided the verdict comes first."""

START = "lagbench.startReport();"

SHOWN_BAD_MESSAGES = 40

GATE_CLASSES = {
    "baseline": "pass",
    "within": "pass",
    "regressed": "fail",
    "undetermined": "undetermined",
    "not_compared": "not_judged",
}
"""The page's colours of verdicts, by the result of the gate."""


def write_report(folder: RunFolder) -> Path:
    """Write ``report.html`` from the run folder alone and return its path.

    That of a second group comes first; one that was not measured has none.

    :raises NotReady: the folder has no measures or no verdict.
    """
    if folder.second is not None and folder.second.measures.exists():
        write_report(folder.second)
    measures = folder.read_model(folder.measures, Measures)
    verdict = folder.read_model(folder.verdict, Verdict)
    series = read_series(folder, measures)
    folder.write_text(folder.report, render(folder, measures, verdict, series))
    return folder.report


def render(folder: RunFolder, measures: Measures, verdict: Verdict, series: RunSeries) -> str:
    """Return the page's HTML."""
    templates = environment()
    templates.filters["since"] = lambda at: (
        UNKNOWN if at is None else f"{(at - series.origin_at) / NANOSECONDS:+.1f} s"
    )
    manifest = folder.read_json(folder.manifest) if folder.manifest.exists() else {}
    prediction, check = read_prediction(folder), folder.path / POLICY_CHECK_FILE
    earlier = read_earlier(folder)
    steps = steps_of(folder, measures, verdict)
    shown = [  # of what an observation neither measured nor judged there is nothing to say
        slo
        for slo in verdict.slos
        if measures.observation is None or slo.status != "not_judged" or slo.value is not None
    ]
    return templates.get_template("report.html.j2").render(
        m=measures,
        verdict=verdict,
        series=series,
        limits=series.limits,
        histogram=histogram(folder, measures, series.shifts, series.producer_shift),
        gate=read_record(folder),
        second=_second(folder),
        prediction=prediction,
        residuals=_residuals(prediction, measures),
        model_error=error_text(PREDICTED),
        gate_class=GATE_CLASSES,
        slos=sorted(shown, key=lambda slo: STATUSES.index(slo.status)),
        tiles=tiles(measures, verdict),
        step_strip=step_strip(measures, verdict),
        sentences=in_words(verdict, measures),
        earlier=earlier,
        differences=list(differences(earlier, measures)) if earlier else [],
        named=NAMED,
        next_steps=steps,
        links=_waterfall(measures),
        manifest=_flat(manifest),
        policy=folder.read_text(folder.policy) if folder.policy.exists() else "",
        scenario=folder.read_text(folder.scenario) if folder.scenario.exists() else "",
        policy_check=folder.read_json(check) if check.exists() else None,
        shown=SHOWN_BAD_MESSAGES,
        data=Markup(data_block(series, measures)),  # noqa: S704 - JSON that no text can end
        **inline(f"{scripts()}\n{START}", styles()),
    )


def steps_of(folder: RunFolder, measures: Measures, verdict: Verdict) -> list[NextStep]:
    """Return what its reader can do next, with commands that name the run's own files."""
    manifest = folder.read_json(folder.manifest) if folder.manifest.exists() else {}
    steps = next_steps(
        measures,
        verdict,
        _repeatable(folder, manifest.get("conf") or {}),
        is_second=folder.is_second,
        cheaper=_cheaper(folder, measures) if verdict.status == "pass" else (),
    )
    replay = folder.path / REPLAY_FILE
    if measures.observation is not None and replay.exists():  # the last step rehearses the load
        steps[-1] = replace(steps[-1], command=shlex.join(["lagbench", "run", str(replay)]))
    return steps


def environment() -> jinja2.Environment:
    """Return the templates of the report, with the filters for numbers and instants."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("lagbench.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda shown: runnable(shown) if type(shown) is str else shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= FILTERS
    return made


def _repeatable(folder: RunFolder, conf: Any) -> Mapping[str, Any]:
    """Return what repeats a run: its own files by their paths, or the run folder's copies.

    A conf of other types was damaged.
    """
    of_types = (("scenario", str), ("policy", str), ("overrides", Mapping))
    if isinstance(conf, Mapping) and all(
        isinstance(conf.get(name), of_type | None) for name, of_type in of_types
    ):
        given = filter(None, (conf.get("scenario"), conf.get("policy")))
        if all((HOME / one).is_file() for one in given if is_path(one)):
            return conf
    first = RunFolder(folder.path.parent) if folder.is_second else folder
    return {"scenario": from_home(first.scenario), "policy": from_home(first.policy)}


def _cheaper(folder: RunFolder, measures: Measures) -> Sequence[str]:
    """Return policies of the catalog to try instead of the run's."""
    if measures.observation is not None or measures.spark is not None or folder.is_second:
        return ()
    policies = dict[str, Policy]()
    for name in list_policies():
        with suppress(LagbenchError):
            if name != "lag-spark":  # the run's consumer is not on Spark
                policies[name] = load_policy(name)
    with suppress(LagbenchError):  # a kept run may have neither policy nor scenario
        scenario, limits = read_scenario(folder), {one: policies[one].limits for one in policies}

        def holds(name: str) -> bool:
            """Say whether a run could take it, and no SLO fails or is open in the simulator."""
            with suppress(LagbenchError):
                check_fit(scenario, policies[name])
                found = predict(scenario, policies[name], phases=_PHASES).slos
                return {slo.status for slo in found if slo.level == "fail"} <= {"pass"}
            return False

        cheaper = cheaper_policies(measures, read_policy(folder).limits, limits)
        return list(islice(filter(holds, cheaper), MOST_CHEAPER))
    return ()


def _second(folder: RunFolder) -> dict[str, Any] | None:
    """Return what the page shows of the second group; None: the run has one group."""
    second = folder.second
    if second is None:
        return None
    found: dict[str, Any] = {"verdict": None, "measures": None}
    if second.verdict.exists():
        found["verdict"] = second.read_model(second.verdict, Verdict)
    if second.measures.exists():
        found["measures"] = second.read_model(second.measures, Measures)
    return {**found, "report": f"{second.path.name}/{second.report.name}"}


def _residuals(
    prediction: RunPrediction | None, measures: Measures
) -> list[dict[str, Residual | None]]:
    """Return a row per predicted measure, for the prediction before and the one after."""
    if prediction is None or prediction.before is None:
        return []
    before = residuals(prediction.before, measures)
    after = residuals(prediction.after, measures) if prediction.after else [None] * len(before)
    return [{"before": b, "after": a} for b, a in zip(before, after, strict=True)]


def instant(at: int | None) -> str:
    """Return unix nanoseconds as UTC to the millisecond."""
    if at is None:
        return UNKNOWN
    moment = datetime.fromtimestamp(at / NANOSECONDS, tz=UTC)
    return moment.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", " UTC")


def _in_units(pattern: str, digits: int = 0, scale: float = 1) -> Callable[..., str]:
    """Return a filter that writes a number with thousands separators; a dash: not measured."""

    def text(value: float | None, digits: int = digits) -> str:
        return UNKNOWN if value is None else pattern.format(f"{value / scale:,.{digits}f}")

    return text


FILTERS: Mapping[str, Callable[..., str]] = {
    "number": _in_units("{}"),
    "seconds": _in_units("{} s", 1),
    "percent": _in_units("{} %", 1),
    "memory": _in_units("{} MiB", scale=2**20),
    "instant": instant,
    "time": seconds_text,
    # A phrase with a capital and a full stop; an empty text stays empty.
    "word": explained,
    "sentence": lambda text: f"{text[0].upper()}{text[1:].rstrip('.')}." if text else "",
}


def _waterfall(measures: Measures) -> list[dict[str, Any]]:
    """Return the links with the place of their bars: per mille of the whole chain."""
    links = measures.reaction.links
    whole = sum(link.part_seconds or 0.0 for link in links)
    rows, left = [], 0.0
    for link in links:
        part = link.part_seconds or 0.0
        scale = 1000 / whole if whole else 0.0
        rows.append({"link": link, "left": round(left * scale, 1), "width": round(part * scale, 1)})
        left += part
    return rows


def _flat(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the manifest as rows; texts shown elsewhere on the page are left out."""
    rows: list[tuple[str, str]] = []
    for key, value in manifest.items():
        if isinstance(value, dict):
            rows += [(f"{key}.{inner}", str(found)) for inner, found in value.items()]
        elif not (isinstance(value, str) and "\n" in value):
            rows.append((key, instant(value) if key.endswith("_at") else str(value)))
    return rows


SCRIPTS = ("theme", "samples", "marks", "panels", "charts", "tables")
"""Each adds to ``window.lagbench`` when it is read, in this order."""
STYLES = ("theme", "page", "charts", "print")


@cache
def scripts() -> str:
    """Return one classic script: uPlot with its licence, then ours."""
    licence, library = (asset(f"vendor/uplot/{n}") for n in ("LICENSE.txt", "uPlot.iife.min.js"))
    return f"/* uPlot:\n{licence.strip()}\n*/\n{library.strip()}\n{own_scripts(*SCRIPTS)}"


@cache
def styles() -> str:
    """Return one style sheet: uPlot's, then ours."""
    library = asset("vendor/uplot/uPlot.min.css").strip()
    return f"{library}\n{own_styles(*STYLES)}"


def own_scripts(*names: str) -> str:
    """Return files of ``scripts`` as one."""
    return "\n".join(asset(f"scripts/{name}.js").strip() for name in names)


def own_styles(*names: str) -> str:
    """Return files of ``styles`` as one, in the order of the cascade."""
    return "\n".join(asset(f"styles/{name}.css").strip() for name in names)


def inline(script: str, style: str, *, own: str = "'none'") -> dict[str, str]:
    """Return a page's script and style as its template takes them, and the policy for them."""
    return {
        "script": Markup(script),  # noqa: S704 - ours
        "style": Markup(style),  # noqa: S704 - ours
        "content_security_policy": content_security_policy([script], [style], own=own),
    }


def content_security_policy(
    scripts: Iterable[str], styles: Iterable[str], *, own: str = "'none'"
) -> str:
    """Return the policy of a page that may run and show nothing but these inline texts.

    :param own: where its forms and requests lead, and what its frames show: ``'self'``.

    A text is what stands between ``<script>`` and ``</script>``, to the byte.
    """
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(_source, scripts))}",
            f"style-src {' '.join(map(_source, styles))}",
            "img-src data: blob:",
            "base-uri 'none'",
            f"form-action {own}",
            f"frame-src {own}",
            f"connect-src {own}",
        ]
    )


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def asset(path: str) -> str:
    """Return a file of the report."""
    return resources.files("lagbench.report").joinpath(path).read_text(encoding="utf-8")


class Tile(NamedTuple):
    """One number of the run with its unit, what it is, and how it stands to its limit."""

    value: str
    title: str
    note: str = ""
    limit: str = ""
    status: SloStatus = "not_judged"


def tiles(measures: Measures, verdict: Verdict) -> list[Tile]:
    """Return the tiles, judged ones first; a measure that the run lacks is a dash."""
    slos = {slo.name: slo for slo in verdict.slos}
    found = []
    for name, note in _SHOWN.items():
        value, slo = _value(name, measures), slos.get(name)
        if slo is not None and slo.value is not None:
            value = slo.value_text  # with as many decimals as in the table
        if name == "flips" and measures.scaling.max_replicas is None:
            found.append(Tile("–", NAMED[name].title, "not measured: no --deployment"))
            continue
        is_judged = slo is not None and slo.status != "not_judged"
        if measures.observation is not None and value == UNKNOWN and not is_judged:
            continue
        limit, status = (slo.limit_text, slo.status) if slo and is_judged else ("", "not_judged")
        found.append(Tile(value, NAMED[name].title, note(measures), limit, status))
    return sorted(found, key=lambda tile: tile.status == "not_judged")


def _value(name: str, measures: Measures) -> str:
    return NAMED[name].text(NAMED[name].read(measures))


def _build_up(measures: Measures) -> str:
    build_up = measures.lag.build_up
    rate = None if build_up is None else build_up.records_per_second
    return "" if rate is None else f"built up at {rate:,.0f}/s"


def _dip(measures: Measures) -> str:
    if measures.spark is not None:
        return "not asked: the group of a Spark consumer has no members"
    found = measures.rebalances
    # A scale step's window is wider at low rates.
    steps = [
        (step.dip_percent, step.window_seconds)
        for step in found.episodes
        if step.trigger in SCALE_STEPS and step.dip_percent is not None
    ]
    window = max(steps, key=lambda step: step[0])[1] if steps else None
    deepest = "deepest" if window is None else f"deepest, in a {window:g} s window"
    area = _value("rebalance_area_seconds", measures)
    count = f"{found.after_start} rebalances"
    if found.count is None:
        count = "rebalances were not measured: an own consumer does not report them"
    return f"{deepest}; {area} of work; {count}"


def _pod_time(measures: Measures) -> str:
    ratio = measures.scaling.idle_ratio
    idle = "" if ratio is None else f", {ratio * 100:.0f} % idle"
    return measures.scaling.unwatched_text or f"in the planned window{idle}"


def _time_lag(measures: Measures) -> str:
    during, after = measures.lag.time_lag_seconds, measures.lag.time_lag_seconds_after
    parts = [f"p95 {_value('time_lag_p95_seconds', measures)}"]
    if during.max is not None:
        parts.append(f"max {during.max:,.1f} s")
    if after is not None and after.p99 is not None:
        parts.append(f"p99 {after.p99:,.1f} s after the planned window")
    return ", ".join(parts)


_SHOWN: Mapping[str, Callable[[Measures], str]] = {
    "reaction_seconds": lambda measures: (
        "load step to first "
        + (
            "new pod Ready and assigned"
            if measures.spark is None
            else "task finished on a new worker"
        )
    ),
    "peak_lag_records": _build_up,
    "drain_seconds": lambda _: "after the spike",
    "rebalance_dip_percent": _dip,
    "standstill_seconds": lambda _: "longest, while work waited",
    "lost": lambda _: "",
    "duplicated": lambda _: "",
    "flips": lambda measures: f"in {_value('replica_changes', measures)} replica changes",
    "pod_minutes": _pod_time,
    "time_lag_p99_seconds": _time_lag,
}
