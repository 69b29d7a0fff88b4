"""Say a verdict in plain words: what holds, by which margin, and which limits are missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lagbench.core.verdict.slo import CLAIM, SloResult
from lagbench.core.verdict.verdict import Verdict

_MOST_NAMED = 3
_ROWS = 6
_PROMISES = ("time_lag_p99_seconds", "drain_seconds", "time_lag_p95_seconds")
"""Judged only if the scenario has a limit for them."""
_MARKS = {"pass": "✓", "fail": "✗", "undetermined": "?", "not_judged": "·"}


def in_words(verdict: Verdict) -> tuple[str, ...]:
    """Return one to four sentences: the status with its margin, what to do, what was not asked."""
    if verdict.status == "not_judged":
        return tuple(f"{one[:1].upper()}{one[1:]}." for one in verdict.reasons)
    return tuple(_sentences(verdict))


def _sentences(verdict: Verdict) -> Iterator[str]:
    judged = [slo for slo in verdict.slos if slo.status != "not_judged"]
    failed = [slo for slo in judged if slo.status == "fail"]
    if verdict.invalid:
        yield "Invalid: the run measured something else than planned. Run it again."
    if failed:
        named = "; ".join(f"{slo.title} {_over(slo)}" for slo in failed[:_MOST_NAMED])
        more = f"; and {len(failed) - _MOST_NAMED} more" if len(failed) > _MOST_NAMED else ""
        yield f"{len(failed)} of {len(judged)} SLOs with a limit fail: {named}{more}."
    elif verdict.status == "pass":
        yield f"All {len(judged)} SLOs with a limit hold{_closest(judged)}."
    elif verdict.deciding and not verdict.invalid:
        yield f"Undetermined, which is not a pass: {verdict.deciding[0]}."
    for reason in verdict.judged_without:
        yield f"{reason[:1].upper()}{reason[1:]}."
    for slo in judged:
        if slo.is_too_close:
            yield (
                f"{slo.title}: one run is too inexact for this limit. Repeat the run, "
                f"or set another limit: --set slos.{slo.name}=VALUE."
            )
    asked = [slo for slo in verdict.slos if slo.threshold != "reported only"]
    if len(judged) * 2 < len(asked):
        yield f"Partial: {len(judged)} of {len(asked)} SLOs with a limit could be judged."
    unasked = {slo.name: slo for slo in verdict.slos if slo.threshold == "reported only"}
    promises = [unasked[name] for name in _PROMISES if name in unasked]
    others = [slo for slo in promises if slo.value is not None]
    if others:
        values = ", ".join(f"{slo.title} {slo.value_text}" for slo in others)
        yield f"Not asked: {values}. To judge one: --set slos.{others[0].name}=SECONDS."


def _over(slo: SloResult) -> str:
    if slo.threshold == CLAIM:
        return "does not hold"
    return f"{slo.value_text}, {slo.threshold}"


def _closest(judged: list[SloResult]) -> str:
    """Return the SLO that is nearest to its limit, with its margin; empty: none has a number."""
    shares = [
        (max(slo.value, slo.high or 0) / slo.limit, slo)
        for slo in judged
        if slo.value is not None and slo.limit
    ]
    if not shares:
        return ""
    share, slo = max(shares, key=lambda one: one[0])
    left = f"{(1 - share) * 100:.0f} % left"
    return f"; the closest: {slo.title} {slo.value_text} of {slo.threshold} ({left})"


def summary(verdict: Verdict, manifest: Mapping[str, Any], seen: Sequence[str] = ()) -> str:
    """Return the run as a dozen lines of Markdown, for a pull request or a job's page.

    :param manifest: of the run, for the names of scenario and policy and the seed.
    :param seen: what an observation saw, in sentences.
    """
    order = ("fail", "undetermined", "pass")
    judged = sorted(
        (slo for slo in verdict.slos if slo.status in order), key=lambda s: order.index(s.status)
    )
    rows = [
        f"| {_MARKS[slo.status]} | {slo.title} | {slo.threshold} | {slo.value_text} |"
        for slo in judged[:_ROWS]
    ]
    if len(judged) > _ROWS:
        rows.append(f"| | {len(judged) - _ROWS} more | | |")
    named = f"{manifest.get('scenario')} with {manifest.get('policy')}, seed {manifest.get('seed')}"
    lines = [
        f"### {_MARKS[verdict.status]} {verdict.label.upper()}: {named}",
        "",
        " ".join((*seen, *in_words(verdict), *verdict.invalid)),
        "",
        "| | SLO | limit | value |",
        "|---|---|---|---|",
        *rows,
        "",
        f"Run `{verdict.run_id}`",
    ]
    return "\n".join(lines) + "\n"
