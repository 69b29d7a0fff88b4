"""``lagbench policy check``: report what KEDA would reject or silently do differently."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from lagbench.cli.cell_options import TargetSettingsOption
from lagbench.errors import ExitCode, WrongInput

if TYPE_CHECKING:
    from lagbench.core.policy.review import ClusterFacts, FileReview, PolicyContext

policy = typer.Typer(
    name="policy", help="Look at a scaling policy before it is applied.", no_args_is_help=True
)


@policy.command()
def check(
    file: Annotated[
        str, typer.Argument(help="A policy by name or path; several documents are fine.")
    ],
    *,
    scenario: Annotated[
        str | None, typer.Option(help="Take partitions, rates and SLO from this scenario.")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="Partitions of the topic.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Messages per second that one pod can do.")
    ] = None,
    slo: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds that a message may wait at most.")
    ] = None,
    drain: Annotated[
        float | None,
        typer.Option(min=0.001, help="Seconds that a pod needs from SIGTERM until it has left."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit code 2 also for what KEDA stores but cannot run.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    target: Annotated[
        str | None,
        typer.Option(
            help="Read what else is there from embedded, kind, or context:NAME; changes nothing. "
            "Default: no cluster is asked."
        ),
    ] = None,
    target_settings: TargetSettingsOption = None,
) -> int:
    """Say what KEDA would refuse, and warn of what it would ignore or do otherwise.

    Exit code 0: accepted, also with warnings. 2: refused, by the API server or KEDA's webhook.
    3: the cluster of --target cannot be read.
    """
    from lagbench.catalog.catalog import policy_file
    from lagbench.catalog.strict_yaml import parse_documents, read_text
    from lagbench.cli.policy_report import print_review
    from lagbench.core.policy.review import review_documents

    path = policy_file(file)
    context = _context(scenario, partitions, rate, slo, drain)
    documents = parse_documents(read_text(path), where=str(path))
    facts = _facts(target, target_settings, documents)
    review = review_documents(
        documents,
        where=str(path),
        context=context,
        workloads=_workload_under_test(scenario) if facts is None else (),
        facts=facts,
    )
    if as_json:
        typer.echo(json.dumps(_as_json(str(path), review, facts), indent=2, ensure_ascii=False))
    else:
        print_review(Console(), path, review, context, facts)
    is_good = all(item.can_run if strict else item.is_accepted for item in review.policies)
    return ExitCode.PASS if is_good else ExitCode.WRONG_INPUT


@policy.command()
def alerts(
    file: Annotated[
        str, typer.Argument(help="A policy by name or path; several documents are fine.")
    ],
    *,
    operator: Annotated[
        bool, typer.Option("--operator", help="Print PrometheusRule objects for its operator.")
    ] = False,
) -> int:
    """Print alert rules for Prometheus that watch the policy in production.

    They ask kafka_exporter, kube-state-metrics and KEDA by their names (docs/monitoring.md).

    Exit code 2: the file holds no policy, or one that KEDA or Kubernetes would refuse.
    """
    from lagbench.alerts.policy_alerts import rules_of_documents
    from lagbench.alerts.rule_files import as_yaml, prometheus_rule, rule_file
    from lagbench.catalog.catalog import policy_file
    from lagbench.catalog.strict_yaml import parse_documents, read_text

    path = policy_file(file)
    groups = rules_of_documents(parse_documents(read_text(path), where=str(path)), where=str(path))
    head = f"Made by lagbench policy alerts {file}: make them anew when the policy changes."
    if not operator:
        typer.echo(as_yaml([rule_file(groups)], head=head), nl=False)
        return ExitCode.PASS
    objects = [prometheus_rule(group) for group in groups]
    typer.echo(as_yaml(objects, head=head), nl=False)
    return ExitCode.PASS


def _context(
    scenario: str | None,
    partitions: int | None,
    rate: float | None,
    slo: float | None,
    drain: float | None,
) -> PolicyContext:
    """Return the known facts of the workload; a flag takes precedence over the scenario."""
    from lagbench.catalog.catalog import load_scenario
    from lagbench.core.cluster import grace_seconds
    from lagbench.core.policy.review import PolicyContext
    from lagbench.core.scenario.stream import offered_load

    if scenario is None:
        return PolicyContext(
            partitions=partitions, pod_rate=rate, slo_seconds=slo, drain_seconds=drain
        )
    cell = load_scenario(scenario)
    consumer = cell.consumer
    if rate is None and consumer.process_ms:
        rate = consumer.concurrency * 1000 / consumer.process_ms
    load = offered_load(cell.profile)
    return PolicyContext(
        partitions=partitions or cell.partitions,
        pod_rate=rate,
        slo_seconds=slo or cell.slos.time_lag_p99_seconds,
        base_rate=load.base_rate,
        drain_seconds=drain or (grace_seconds(consumer) if consumer.drain == "on" else None),
        pause_seconds=load.longest_pause_seconds,
    )


def _workload_under_test(scenario: str | None) -> tuple[dict[str, Any], ...]:
    """Return the consumers' Deployment, which the policies of this project scale.

    Its grace period is that of a run of the scenario.
    """
    from lagbench.adapters.kube.manifest_files import base_manifest
    from lagbench.catalog.catalog import load_scenario
    from lagbench.core.cluster import grace_seconds

    manifest = base_manifest("consumer", "Deployment")
    if scenario is not None:
        pod = manifest["spec"]["template"]["spec"]
        pod["terminationGracePeriodSeconds"] = grace_seconds(load_scenario(scenario).consumer)
    return (manifest,)


def _facts(
    target: str | None, settings_file: Path | None, documents: list[Any]
) -> ClusterFacts | None:
    """Return the facts of the target's cluster; None without a target."""
    from lagbench.orchestrator.target_facts import target_facts

    if target is not None:
        return target_facts(target, settings_file, documents)
    if settings_file is not None:
        raise WrongInput(
            where="target",
            field="--target-settings",
            value=str(settings_file),
            allowed="only with a cluster as --target",
        )
    return None


def _as_json(path: str, review: FileReview, facts: ClusterFacts | None) -> dict[str, Any]:
    return {
        "file": path,
        "policies": [
            {
                "kind": item.kind,
                "name": item.name,
                "accepted": item.is_accepted,
                "refused_by": item.refused_by,
                "can_run": item.can_run,
                "climb": list(item.climb),
                "suggested_lag_threshold": item.suggested_lag_threshold,
                "findings": [finding.as_dict() for finding in item.findings],
            }
            for item in review.policies
        ],
        "other_documents": list(review.others),
        "cluster": None if facts is None else facts.as_dict(),
    }
