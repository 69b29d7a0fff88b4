"""Print a policy's review on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lagbench.core.policy.review import (
    ClusterFacts,
    FileReview,
    Finding,
    Level,
    PolicyContext,
    PolicyReview,
)

_MARKS: dict[Level, tuple[str, str]] = {
    "refused": ("✗", "bold red"),
    "broken": ("✗", "red"),
    "warning": ("!", "yellow"),
    "note": ("·", "dim"),
}
_WIDEST = 110
_MOST_NAMES = 12
_LISTS = (
    ("ScaledObjects", "scaled_objects"),
    ("HorizontalPodAutoscalers", "horizontal_pod_autoscalers"),
    ("LimitRanges", "limit_ranges"),
)
_LONG_PATH = "spec.advanced.horizontalPodAutoscalerConfig."


def print_review(
    console: Console,
    path: Path,
    review: FileReview,
    context: PolicyContext,
    facts: ClusterFacts | None = None,
) -> None:
    """Print admission and findings of each policy in the file."""
    console.width = min(console.width, _WIDEST)  # longer lines are hard to read
    for number, policy in enumerate(review.policies):
        if number:
            console.print()
        console.print(Text.assemble((path.name, "bold"), f"  {policy.kind} {policy.name}"))
        _print_policy(console, policy, context)
    if review.others:
        others = ", ".join(review.others)
        console.print(f"beside it in the file: {others}", style="dim", highlight=False)
    if facts is not None:
        _print_facts(console, facts)
    if context.partitions is None:
        console.print(
            "not checked: partitions, threshold against rate and SLO "
            "(--scenario NAME, or --partitions P --rate R --slo S)",
            style="dim",
            highlight=False,
        )


def _print_facts(console: Console, facts: ClusterFacts) -> None:
    """Print the facts that the review takes from the cluster; all others are from the file."""
    shown = facts.as_dict()
    place = f"{facts.source}, namespace {facts.namespace}"
    if facts.scaled_objects is None:
        lines = [f"read from {place}: nothing, the file has no ScaledObject"]
    else:
        lines = [f"read from {place}; the rest is from the file:"]
    for title, key in _LISTS:
        if shown[key] is not None:
            lines.append(f"  {title}: {_listed(shown[key])}")
    lines += [f"  {item}: {_presence(is_there)}" for item, is_there in shown["objects"].items()]
    for group, is_served in (shown["api_groups"] or {}).items():
        lines.append(f"  API group {group}: {'served' if is_served else 'not served'}")
    for line in lines:
        console.print(line, style="dim", highlight=False)


def _listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _MOST_NAMES
    rest = [f"and {more} more"] if more > 0 else []
    return ", ".join([*names[:_MOST_NAMES], *rest]) or "none"


def _presence(is_there: bool) -> str:
    return "there" if is_there else "not there"


def _print_policy(console: Console, policy: PolicyReview, context: PolicyContext) -> None:
    console.print(_admission(policy), highlight=False)
    if len(policy.climb) > 1:
        way = " → ".join(map(str, policy.climb))
        console.print(f"  up under full lag   {way}", highlight=False)
    if policy.suggested_lag_threshold is not None:
        console.print(
            f"  suggested threshold {policy.suggested_lag_threshold:,} = "
            f"{context.pod_rate:,g}/s x {context.slo_seconds:g} s x 0.75",
            highlight=False,
        )
    if policy.loop_gain is not None and policy.standing_lag_seconds is not None:
        console.print(f"  loop gain           {loop_text(policy.loop_gain)}", highlight=False)
        console.print(
            f"  lag at rest         {policy.standing_lag_seconds:,.1f} s (lagThreshold / one pod)",
            highlight=False,
        )
    if not policy.findings:
        return
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in policy.findings:
        mark, style = _MARKS[finding.level]
        table.add_row(Text(mark, style=style), _body(finding))
        table.add_row()
    console.print(Padding(table, (1, 0, 0, 0)), highlight=False)


def loop_text(gain: float) -> str:
    """Return the loop gain with its rule, as docs/findings/gain_rule found it."""
    return (
        f"{gain:,.2g} (HPA sync x one pod / lagThreshold); without a window, between floor and "
        "ceiling, it flips by itself far above 1 and may at 1; simulated: with slow pods above 0.25"
    )


def _admission(policy: PolicyReview) -> Text:
    if not policy.is_accepted:
        by = "KEDA's webhook" if policy.refused_by == "webhook" else "the API server"
        return Text.assemble(("✗ refused", "bold red"), f" by {by}")
    webhook = " and KEDA's webhook" if policy.kind == "ScaledObject" else ""
    line = Text.assemble(("✓ accepted", "green"), f" by the API server{webhook}")
    if not policy.can_run:
        line.append(", but it cannot run", style="red")
    return line


def _body(finding: Finding) -> Text:
    _, style = _MARKS[finding.level]
    body = Text.assemble(
        (finding.code, style if finding.level != "note" else ""),
        "  ",
        (f"{finding.field.replace(_LONG_PATH, '…')} = {finding.value}", "dim"),
        f"\n{finding.happens}",
    )
    if finding.instead:
        body.append_text(Text.assemble("\n", ("instead: ", "dim"), finding.instead))
    return body
