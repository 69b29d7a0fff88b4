"""``lagbench policy check | alerts``: what KEDA rejects or ignores of a policy, and its alerts."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lagbench.cli.options import (
    JsonOption,
    SloOption,
    TargetSettingsOption,
    finite,
    number,
    refuse,
    slo_limits,
)
from lagbench.cli.terminal import Terminal, print_json
from lagbench.errors import ExitCode
from pod_program.shown import printable

if TYPE_CHECKING:
    from lagbench.core.policy.finding import Level
    from lagbench.core.policy.review.cluster_facts import ClusterFacts
    from lagbench.core.policy.review.policy_file import FileReview
    from lagbench.core.policy.review.policy_review import PolicyReview
    from lagbench.core.policy.review.subject import PolicyContext

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
_JUDGED = ("time_lag_p99_seconds",)
"""SLOs that a policy is checked against: how long a message may wait."""
_LONG_PATH = "spec.advanced.horizontalPodAutoscalerConfig."

CANNOT_RUN = ExitCode.SLO_FAILED
"""The code of a verdict that fails: KEDA stores the policy, and it does not do its work."""

FilesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="Policies by name or path, or - for standard input: YAML or JSON, several documents "
        "or a List. Their Deployment and ConfigMaps may be beside them.",
    ),
]

policy = typer.Typer(
    name="policy", help="Check a scaling policy before it is applied.", no_args_is_help=True
)


@policy.command()
def check(
    files: FilesArgument,
    *,
    scenario: Annotated[
        str | None, typer.Option(help="Take partitions, rates and SLO from this scenario.")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="Partitions of the topic.")
    ] = None,
    rate: Annotated[float | None, number("Messages per second that one pod can process.")] = None,
    slo: SloOption = None,
    shutdown: Annotated[
        float | None,
        typer.Option(
            "--shutdown-seconds",
            "--drain",  # the earlier name
            min=0.001,
            callback=finite,
            help="Seconds that a pod needs from SIGTERM until it has left.",
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Exit with code 2 instead of 1 if the policy is stored but cannot run."
        ),
    ] = False,
    as_json: JsonOption = False,
    target: Annotated[
        str | None,
        typer.Option(
            help="Also check it against the objects in embedded, kind, or context:NAME; "
            "read-only. Default: no cluster."
        ),
    ] = None,
    target_settings: TargetSettingsOption = None,
) -> int:
    """Report what KEDA would reject, and warn of settings that it would ignore.

    Exit code 0: accepted, also with warnings. 1: stored, but it cannot run: never ready, or it
    cannot do what it is for. 2: rejected, by the API server or KEDA's webhook. 3: the cluster of
    --target cannot be read.
    """
    from lagbench.catalog.catalog import load_scenario, read_objects
    from lagbench.core.policy.review.policy_file import review_documents
    from lagbench.core.scenario.slo_limits import Slos
    from lagbench.report.plan_rows import workloads_under_test

    consumer = None if scenario is None else load_scenario(scenario).consumer
    wait = Slos.model_validate(slo_limits(slo, known=_JUDGED)).time_lag_p99_seconds
    context = _context(scenario, partitions, rate, wait, shutdown)
    where, documents = read_objects(files)
    facts = _facts(target, target_settings, documents)
    review = review_documents(
        documents,
        where=where,
        context=context,
        workloads=workloads_under_test(consumer) if facts is None else (),
        facts=facts,
    )
    title = Path(where).name if len(files) == 1 else f"{len(files)} files"
    if as_json:
        print_json(_as_json(where, review, facts))
    else:
        print_review(Terminal(), title, review, context, facts)
    if not all(item.is_accepted for item in review.policies):
        return ExitCode.WRONG_INPUT
    if not all(item.can_run for item in review.policies):
        return ExitCode.WRONG_INPUT if strict else CANNOT_RUN
    return ExitCode.PASS


@policy.command()
def alerts(
    files: FilesArgument,
    *,
    operator: Annotated[
        bool, typer.Option("--operator", help="Print PrometheusRule objects for its operator.")
    ] = False,
    namespace: Annotated[
        str | None, typer.Option(help="The namespace of policies that name none.")
    ] = None,
) -> int:
    """Print alert rules for Prometheus that watch the policy in production.

    They query metrics of kafka_exporter, kube-state-metrics and KEDA (docs/monitoring.md).

    Exit code 2: the file contains no policy, or one that KEDA or Kubernetes would reject.
    """
    from lagbench import alerts as rules
    from lagbench.catalog.catalog import read_objects

    where, documents = read_objects(files)
    groups = rules.rules_of_documents(documents, where=where, namespace=namespace or "default")
    head = f"Generated by lagbench policy alerts {shlex.join(files)}: generate them again when the "
    head += "policy changes."
    if namespace is None and any(map(rules.names_no_namespace, documents)):
        head += "\nA policy names no namespace: default is assumed, --namespace names another."
    if operator:
        objects = [rules.prometheus_rule(group) for group in groups]
    else:
        objects = [rules.rule_file(groups)]
    typer.echo(printable(rules.as_yaml(objects, head=head)), nl=False)
    return ExitCode.PASS


def _context(
    scenario: str | None,
    partitions: int | None,
    rate: float | None,
    slo: float | None,
    shutdown: float | None,
) -> PolicyContext:
    """Return the known facts of the workload; a flag takes precedence over the scenario."""
    from lagbench.catalog.catalog import load_scenario
    from lagbench.core.policy.review.subject import PolicyContext
    from lagbench.report.plan_rows import context_of

    given = {
        "partitions": partitions,
        "pod_rate": rate,
        "slo_seconds": slo,
        "shutdown_seconds": shutdown,
    }
    known = PolicyContext() if scenario is None else context_of(load_scenario(scenario))
    return replace(known, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]


def _facts(
    target: str | None, settings_file: Path | None, documents: list[Any]
) -> ClusterFacts | None:
    """Return the facts of the target's cluster; None without a target."""
    from lagbench.orchestrator.observed_target import target_facts

    if target is not None:
        return target_facts(target, settings_file, documents)
    if settings_file is not None:
        allowed = "only with a cluster as --target"
        refuse("--target-settings", str(settings_file), allowed, where="target")
    return None


def _as_json(path: str, review: FileReview, facts: ClusterFacts | None) -> dict[str, Any]:
    fields = ("kind", "name", "refused_by", "can_run", "suggested_lag_threshold", "loop_gain")
    policies = [
        {
            **{name: getattr(item, name) for name in (*fields, "standing_lag_seconds")},
            "accepted": item.is_accepted,
            "climb": list(item.climb),
            "findings": [finding.as_dict() for finding in item.findings],
        }
        for item in review.policies
    ]
    cluster = None if facts is None else facts.as_dict()
    others = list(review.others)
    return {"file": path, "policies": policies, "other_documents": others, "cluster": cluster}


def print_review(
    console: Terminal,
    name: str,
    review: FileReview,
    context: PolicyContext,
    facts: ClusterFacts | None = None,
) -> None:
    """Print admission and findings of each policy in the file."""
    console.width = min(console.width, _WIDEST)  # longer lines are hard to read
    for place, policy in enumerate(review.policies):
        if place:
            console.print()
        console.print(Text.assemble((name, "bold"), f"  {policy.kind} {policy.name}"))
        _print_policy(console, policy, context)
    if review.others:
        console.print(f"beside it in the file: {', '.join(review.others)}", style="dim")
    for line in () if facts is None else _fact_lines(facts):
        console.print(line, style="dim")
    if context.partitions is None:
        console.print(
            "not checked: partitions, threshold against rate and SLO "
            "(--scenario NAME, or --partitions P --rate R --slo NAME=LIMIT)",
            style="dim",
        )


def _fact_lines(facts: ClusterFacts) -> list[str]:
    """Return the facts that the review takes from the cluster; all others are from the file."""
    from lagbench.core.hpa.controller_flags import followed_version

    shown = facts.as_dict()
    what = "; the rest is from the file:"
    if facts.scaled_objects is None:
        what = ": nothing, the file has no ScaledObject"
    lines = [f"read from {facts.source}, namespace {facts.namespace}{what}"]
    if facts.kubernetes is not None:
        followed = followed_version(facts.kubernetes)
        lines.append(f"  Kubernetes: {facts.kubernetes}, followed as {followed}")
    for title, key in _LISTS:
        if (names := shown[key]) is not None:
            more = len(names) - _MOST_NAMES
            rest = [f"and {more} more"] if more > 0 else []
            lines.append(f"  {title}: {', '.join([*names[:_MOST_NAMES], *rest]) or 'none'}")
    for item, is_there in shown["objects"].items():
        lines.append(f"  {item}: {'there' if is_there else 'not there'}")
    for group, is_served in (shown["api_groups"] or {}).items():
        lines.append(f"  API group {group}: {'served' if is_served else 'not served'}")
    return lines


def _print_policy(console: Terminal, policy: PolicyReview, context: PolicyContext) -> None:
    from lagbench.report.plan_rows import loop_text

    if policy.is_accepted:
        webhook = " and KEDA's webhook" if policy.kind == "ScaledObject" else ""
        line = Text.assemble(("✓ accepted", "green"), f" by the API server{webhook}")
        line.append("" if policy.can_run else ", but it cannot run", style="red")
    else:
        by = "KEDA's webhook" if policy.refused_by == "webhook" else "the API server"
        line = Text.assemble(("✗ refused", "bold red"), f" by {by}")
    console.print(line)
    facts = []
    if len(policy.climb) > 1:
        facts.append(("up under full lag", " → ".join(map(str, policy.climb))))
    if (threshold := policy.suggested_lag_threshold) is not None:
        of = f"{context.pod_rate:,g}/s x {context.slo_seconds:g} s x 0.75, for a message's wait"
        facts.append(("suggested threshold", f"{threshold:,} = {of}"))
    if policy.loop_gain is not None and policy.standing_lag_seconds is not None:
        rest = f"{policy.standing_lag_seconds:,.1f} s (lagThreshold / one pod)"
        one_pod = policy.standing_lag_seconds * (context.pod_rate or 0)  # lagThreshold
        facts += [("loop gain", loop_text(policy.loop_gain, one_pod)), ("lag at rest", rest)]
    for name, text in facts:
        console.print(f"  {name:<19} {text}")
    if not policy.findings:
        return
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in policy.findings:
        mark, style = _MARKS[finding.level]
        field = finding.field.replace(_LONG_PATH, "…")
        code = (finding.code, style if finding.level != "note" else "")
        value = (f"{field} = {finding.value}", "dim")
        body = Text.assemble(code, "  ", value, f"\n{finding.happens}")
        if finding.instead:
            body.append_text(Text.assemble("\n", ("instead: ", "dim"), finding.instead))
        table.add_row(Text(mark, style=style), body)
        table.add_row()
    console.print(Padding(table, (1, 0, 0, 0)))
