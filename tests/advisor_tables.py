"""Print the tables of docs/findings/advisor: ``python -m tests.advisor_tables``.

They come from its kept advices, ``NAME/advice.json``: with the rivals of the catalog, and with the
proof once its rehearsals have run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from lagbench.core.advice.model import Advice, Candidate, Dropped
from lagbench.results.advice_files import PROOF_HEADS, AdviceFolder, numbers, proof_rows

FOLDER = Path(__file__).parents[1] / "docs" / "findings" / "advisor"
ROLES = ("pick", "runner_up", "present")


def advices() -> dict[str, Advice]:
    """Return the kept advices by the name of their folder."""
    found = sorted(FOLDER.glob("*/advice.json"))
    return {path.parent.name: AdviceFolder(path.parent).read() for path in found}


def tables() -> str:
    """Return the tables as Markdown."""
    kept = advices()
    parts = [_answers(kept), _catalog(kept)]
    if any(one.proof for one in kept.values()):
        rows = [(name, *row) for name, one in kept.items() for row in proof_rows(one)]
        parts.append(_table(("scenario", *PROOF_HEADS), rows))
    return "\n\n".join(parts)


def _answers(kept: dict[str, Advice]) -> str:
    rows = []
    for name, advice in kept.items():
        slos = ", ".join(f"{one.name} {one.limit:g}" for one in (advice.slo, *advice.also))
        given: dict[str, Candidate | None] = {role: getattr(advice, role) for role in ROLES}
        for role, one in given.items():
            if one is not None:
                first = (name, slos) if role == "pick" else ("", "")
                holds = "yes" if one.holds else "no"
                title = role.replace("_", "-")
                rows.append((*first, title, f"`{one.name}`", *numbers(advice, one), holds))
    heads = ("scenario", "SLOs", "", "policy", "time lag p99", "90 % of real runs")
    return _table((*heads, "pod-minutes", "flips", "holds"), rows)


def _catalog(kept: dict[str, Advice]) -> str:
    names = {one.name for advice in kept.values() for one in advice.rivals}
    names |= {one.candidate for advice in kept.values() for one in _unfit(advice)}
    rows = [
        (f"`{name}`", *(_against(one, name) for one in kept.values())) for name in sorted(names)
    ]
    return _table(("policy of the catalog", *kept), rows)


def _unfit(advice: Advice) -> Iterator[Dropped]:
    return (one for one in advice.dropped if one.reason.startswith("does not fit"))


def _against(advice: Advice, name: str) -> str:
    """Say how the pick stands against a policy of the catalog."""
    pick, rival = advice.pick, next((one for one in advice.rivals if one.name == name), None)
    if rival is None:
        return "does not fit"
    if pick is None:
        return "holds" if rival.holds else "breaks"
    if rival.manifest == pick.manifest:
        return "is the pick"
    if not rival.holds:
        broken = {slo: n for one in rival.results for slo, n in one.broken.items() if n}
        draws = rival.results[0].draws
        most = ", ".join(f"{slo} in {n} of {draws} draws" for slo, n in broken.items())
        return f"breaks {most}" if most else "holds without the margin only"
    if pick.pod_minutes is None or rival.pod_minutes is None:
        return "no cost"
    more = 100 * (rival.pod_minutes / pick.pod_minutes - 1)
    return f"holds, {more:+.0f} % pod-minutes"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


if __name__ == "__main__":
    sys.stdout.write(tables() + "\n")
