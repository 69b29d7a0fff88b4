"""Render an advice into one self-contained page: the front, what decides, and what holds where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.advice.model import Advice, Candidate
from lagbench.core.measures.measures import NAMED
from lagbench.errors import NotReady
from lagbench.report.axis import Axis
from lagbench.report.bench_page import render_bench_page
from lagbench.report.page import environment, inline, own_scripts, own_styles
from lagbench.results.advice_files import (
    ADVICE_FOLDER,
    AdviceFolder,
    headline,
    named,
    numbers,
    proof_text,
    prove_command,
    short_field,
    worst,
)

_WIDTH, _HEIGHT = 1080, 430
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 22, 44
_LABEL_HEIGHT, _LETTER_WIDTH = 17, 7.4
_PLACES = (0, -1.5, 1.5, -2.5, 2.5, -3.5, 3.5, -4.5, 4.5)
"""Heights of a label above or below its point, the nearest first."""
_START = """lagbench.theme.follow();
lagbench.theme.button(document.getElementById("theme"));"""
_BADGES = {"advice": "pass", "no_policy": "fail", "not_enough_data": "undetermined"}


def write_advice(
    folder: AdviceFolder, advice: Advice, *, present: bytes | None, command: str
) -> None:
    """Write every file of an advice, and its page.

    :param present: the file of the present policy, if there is one.
    :param command: asks the same again.
    """
    folder.write(advice, present=present, command=command)
    RunFolder(folder.path).write_text(folder.page, render(folder, advice, command))


def render(folder: AdviceFolder, advice: Advice, command: str) -> str:
    """Return the page's HTML."""
    style = own_styles("theme", "page", "charts", "advice", "print")
    template = environment().get_template("advice.html.j2")
    return template.render(
        a=advice,
        badge=(advice.outcome.replace("_", " "), _BADGES[advice.outcome]),
        headline=headline(advice),
        shown=[(title, one, numbers(advice, one)) for title, one in _shown(advice)],
        chart=_chart(advice) if advice.front else None,
        robust=_robust(advice),
        named=NAMED,
        short_field=short_field,
        difference=folder.difference.read_text() if folder.difference.exists() else "",
        policy=folder.policy.read_text() if folder.policy.exists() else "",
        command=command,
        prove=prove_command(command, folder),
        **inline(f"{own_scripts('theme', 'tables')}\n{_START}", style),
    )


def _shown(advice: Advice) -> list[tuple[str, Candidate]]:
    """Return the named policies, then the others of the front that hold, by regret."""
    first = list(named(advice))
    known = {one.name for _, one in first}
    rest = [one for one in advice.front if one.name not in known and one.holds]
    rest.sort(key=lambda one: (one.regret is None, one.regret or 0.0))
    return [*first, *(("knee" if one.name == advice.knee else "front", one) for one in rest)]


def _robust(advice: Advice) -> dict[str, Any] | None:
    """Return the table of variants: candidates as columns, the pick first."""
    if not advice.robust:
        return None
    first = advice.pick.name if advice.pick else ""
    names = sorted({row.candidate for row in advice.robust}, key=lambda one: (one != first, one))
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for row in advice.robust:
        rows.setdefault((row.scenario, row.variant), {})[row.candidate] = row
    return {"names": names, "rows": rows}


def _chart(advice: Advice) -> dict[str, Any]:
    """Return the places of the chart of pod-minutes against the SLO's measure."""
    roles: dict[str, str] = {}
    drawn: dict[str, Candidate] = {one.name: one for one in advice.front}
    for title, one in named(advice):
        if roles.get(one.name) != "pick":  # the present policy may be the pick
            roles[one.name] = title
        drawn[one.name] = one
    known = [
        (one.pod_minutes, one.worst_value, one)
        for one in drawn.values()
        if one.pod_minutes is not None and one.worst_value is not None
    ]
    limit = advice.slo.limit
    x = Axis.of([cost for cost, _, _ in known], _LEFT, _WIDTH - _RIGHT)
    y = Axis.of([limit, *(value for _, value, _ in known)], _HEIGHT - _BOTTOM, _TOP)
    points = []
    for cost, value, one in sorted(known, key=lambda row: row[2].name in roles):
        role = roles.get(one.name, "knee" if one.name == advice.knee else "")
        slo, between, minutes, flips = numbers(advice, one)
        real = worst(one).real_range if role else None
        points.append(
            {
                "x": x.at(cost),
                "y": y.at(value),
                "r": 4 + min(one.flips or 0.0, 6.0),
                "role": role,
                "kind": role.split()[0].rstrip(",") if role else "front",
                "label": "present policy" if one.family == "present" else f"{role} {one.name}",
                "holds": one.holds,
                "low": None if real is None else y.at(real[0]),
                "high": None if real is None else y.at(real[1]),
                "text": f"{one.name}: median {slo} (real runs {between}), "
                f"{minutes} pod-minutes, {flips} flips",
            }
        )
    line = [(x.at(one.pod_minutes), y.at(one.worst_value)) for one in advice.front]  # type: ignore[arg-type]
    steps = [f"M{line[0][0]},{line[0][1]}", *(f"H{a}V{b}" for a, b in line[1:])]
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "left": _LEFT,
        "right": _WIDTH - _RIGHT,
        "top": _TOP,
        "bottom": _HEIGHT - _BOTTOM,
        "limit": y.at(limit),
        "x": list(x.ticks),
        "y": list(y.ticks),
        "points": points,
        "labels": list(_labels(points)),
        "line": "".join(steps),
    }


def _labels(points: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the place of each label near its point, on no other label or point if there is room."""
    taken = [(one["x"] - one["r"], one["x"] + one["r"], one["y"], one["r"]) for one in points]
    half = _LABEL_HEIGHT / 2
    for one in sorted((one for one in points if one["role"]), key=lambda point: point["y"]):
        width, reach = _LETTER_WIDTH * len(one["label"]), one["r"] + 6
        for step in _PLACES:
            at = one["y"] + step * _LABEL_HEIGHT
            if not _TOP + half < at < _HEIGHT - _BOTTOM - half:
                continue
            sides = [(one["x"] + reach, "start"), (one["x"] - reach, "end")]
            for near, anchor in sides:
                begin = near if anchor == "start" else near - width
                is_inside = begin > _LEFT and begin + width < _WIDTH - _RIGHT
                if is_inside and not any(
                    a < begin + width and begin < b and abs(at - y) < half + r
                    for a, b, y, r in taken
                ):
                    break
            else:
                continue
            break
        taken.append((begin, begin + width, at, half))
        yield {**one, "label_x": near, "label_y": at, "anchor": anchor, "far": step != 0}


def render_advices(root: Path, *, prefix: str) -> str:
    """Return the page of every advice in a runs folder, the newest first.

    One that cannot be read has no row: another version wrote it.
    """
    rows = list[dict[str, Any]]()
    for path in (root / ADVICE_FOLDER).glob("*/advice.json"):
        with suppress(NotReady):
            advice = AdviceFolder(path.parent).read()
            costs = [cost for one in advice.front if (cost := one.pod_minutes) is not None]
            rows.append(
                {
                    "name": path.parent.name,
                    "made_at": path.stat().st_mtime_ns,
                    "advice": advice,
                    "headline": headline(advice),
                    "proof": proof_text(advice),
                    "cheapest": min(costs, default=None),
                    "dearest": max(costs, default=None),
                }
            )
    rows.sort(key=lambda row: -row["made_at"])
    return render_bench_page("advices", title="Advice", here="advice", prefix=prefix, rows=rows)
