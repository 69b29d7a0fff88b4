"""Say a verdict in plain words: what holds, by which margin, and which limits are missing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lagbench.core.measures.measures import Measures
from lagbench.core.measures.observed_words import seen_in_words
from lagbench.core.verdict.slo import CLAIM, SloResult
from lagbench.core.verdict.verdict import Verdict

_MOST_NAMED = 3
_ROWS = 6
_PROMISES = ("time_lag_p99_seconds", "drain_seconds", "time_lag_p95_seconds")
"""Judged only if the scenario has a limit for them."""
MARKS = {"pass": "✓", "fail": "✗", "warn": "!", "undetermined": "?", "not_judged": "·"}
_LIMITS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)

KEY_FIGURES = ("time_lag_p99_seconds", "drain_seconds", "pod_minutes")
"""How late, for how long, at what cost."""


def in_words(verdict: Verdict, measures: Measures | None = None) -> tuple[str, ...]:
    """Return some sentences: the status with its margin, what to do, what was not asked.

    :param measures: of the run; they explain why more pods did not help, and say what an
        observation saw.
    """
    seen = () if measures is None else seen_in_words(measures)
    if verdict.status == "not_judged":
        said = (f"{one[:1].upper()}{one[1:]}." for one in verdict.reasons)
        return (*seen, *said, *_open(verdict, verdict.slos))
    return (*seen, *_sentences(verdict, measures))


def headline(verdict: Verdict) -> str:
    """Return the status, the first reason unless it passed, and the known key figures."""
    known = {slo.name: slo for slo in verdict.slos if slo.value is not None}
    parts = [verdict.label, *(() if verdict.status == "pass" else verdict.deciding[:1])]
    found = (known[name] for name in KEY_FIGURES if name in known)
    return "; ".join([*parts, *(f"{slo.title} {slo.value_text}" for slo in found)])


def _sentences(verdict: Verdict, measures: Measures | None) -> Iterator[str]:
    found = [slo for slo in verdict.slos if slo.status != "not_judged"]
    judged = [slo for slo in found if not slo.is_warning]
    failed = [slo for slo in judged if slo.status == "fail"]
    if verdict.invalid:
        yield "Invalid: the run measured something else than planned. Run it again."
    if failed:
        yield f"{len(failed)} of {len(judged)} SLOs with a limit fail: {_named(failed)}."
    elif verdict.status == "pass":
        yield f"All {len(judged)} SLOs with a limit hold{_closest(judged)}."
    elif verdict.deciding and not verdict.invalid:
        yield f"Undetermined, which is not a pass: {verdict.deciding[0]}."
    yield from _open(verdict, found)
    if verdict.is_partial:
        yield f"Partial: {len(verdict.known)} of {len(verdict.slos)} SLOs are judged."
    yield from _unasked(verdict, measures)


def _open(verdict: Verdict, found: Sequence[SloResult]) -> Iterator[str]:
    """Yield what the run could not judge, and what to do; what only warns."""
    for reason in verdict.judged_without:
        yield f"{reason[:1].upper()}{reason[1:]}."
    if broken := [slo for slo in found if slo.status == "warn"]:
        yield f"Warning, which does not fail the run: {_named(broken)}."
    for slo in found:
        if slo.is_warning and slo.status == "undetermined":
            yield f"Warning: {slo.title} is not known: {slo.reason}."
        if slo.is_too_close:
            yield (
                f"{slo.title}: one run is too inexact for this limit. Repeat the run, or set "
                f"another limit: {slo.option}={_limit_above(slo.high or 0.0)}."
            )


def _unasked(verdict: Verdict, measures: Measures | None) -> Iterator[str]:
    """Yield the values of promises that have no limit, and why pods helped them little."""
    unasked = {slo.name: slo for slo in verdict.slos if not slo.is_asked}
    promises = [unasked[name] for name in _PROMISES if name in unasked]
    others = [slo for slo in promises if slo.value is not None]
    if others:
        values = ", ".join(f"{slo.title} {slo.value_text}" for slo in others)
        why = "" if measures is None else _why_pods_helped_little(measures)
        limit = f"{others[0].name}={_limit_above(others[0].value or 0.0)}"
        yield (
            f"Not asked: {values}{why}. To judge one: lagbench report {verdict.run_id} "
            f"--slo {limit}"
        )


def _named(slos: Sequence[SloResult]) -> str:
    named = "; ".join(f"{slo.title} {_over(slo)}" for slo in slos[:_MOST_NAMED])
    more = f"; and {len(slos) - _MOST_NAMED} more" if len(slos) > _MOST_NAMED else ""
    return f"{named}{more}"


def _over(slo: SloResult) -> str:
    if slo.threshold == CLAIM:
        return "does not hold"
    return f"{slo.value_text}, {slo.threshold}"


def _closest(judged: Sequence[SloResult]) -> str:
    """Return the SLO that is nearest to its limit, with its margin; empty: none has a number."""
    margins = [(slo.margin, slo) for slo in judged if slo.margin is not None]
    if not margins:
        return ""
    margin, slo = min(margins, key=lambda one: one[0])
    left = f"{margin * 100:.0f} % left"
    return f"; the closest: {slo.title} {slo.value_text} of {slo.threshold} ({left})"


def _limit_above(value: float) -> str:
    """Return the next round number that is not below ``value``."""
    scale = 10 ** math.floor(math.log10(value)) if value > 0 else 1
    return f"{next(step * scale for step in _LIMITS if step * scale >= value):g}"


def _why_pods_helped_little(measures: Measures) -> str:
    """Return why a drain was as long as its hottest partition needs; empty: it was longer."""
    share, most = measures.accounting.hottest_partition_share, measures.scaling.max_ready_replicas
    if not share or measures.spark is not None or not measures.is_skew_limited:
        return ""
    first = int(1 / share) + 1  # so many pods do the rest while one does the hottest partition
    pods = f"; pods {first} to {most} helped little" if most is not None and most > first else ""
    return f": one partition takes {share * 100:.0f} % of the load and one pod reads it{pods}"


def summary(
    verdict: Verdict,
    manifest: Mapping[str, Any],
    measures: Measures | None = None,
    earlier: Sequence[str] = (),
) -> str:
    """Return the run as a dozen lines of Markdown, for a pull request or a job's page.

    :param manifest: of the run, for the names of scenario and policy and the seed.
    :param earlier: the differences to earlier runs, a line each.
    """
    order = ("fail", "warn", "undetermined", "pass")
    judged = sorted(
        (slo for slo in verdict.slos if slo.status in order), key=lambda s: order.index(s.status)
    )
    rows = [
        f"| {MARKS[slo.status]} | {slo.title} | {slo.limit_text} | {slo.value_text} |"
        for slo in judged[:_ROWS]
    ]
    if len(judged) > _ROWS:
        rows.append(f"| | {len(judged) - _ROWS} more | | |")
    named = f"{manifest.get('scenario')} with {manifest.get('policy')}, seed {manifest.get('seed')}"
    mark = "!" if verdict.is_partial else MARKS[verdict.status]
    lines = [
        f"### {mark} {verdict.label.upper()}: {named}",
        "",
        " ".join((*in_words(verdict, measures), *verdict.invalid)),
        "",
        "| | SLO | limit | value |",
        "|---|---|---|---|",
        *rows,
        "",
        *earlier,
        f"- Run `{verdict.run_id}`",
    ]
    return "\n".join(lines) + "\n"
