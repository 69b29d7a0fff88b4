"""``lagbench explain``: the decision of a ScaledObject's lag triggers for the current lag."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from lagbench.cli.options import JsonOption, refuse
from lagbench.cli.terminal import Terminal, print_json
from lagbench.errors import ExitCode, NotReady

if TYPE_CHECKING:
    from lag_scaler.explain import Step
    from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec, Trigger
    from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
    from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger
    from lagbench.core.policy.explained_steps import Explanation
    from lagbench.core.policy.policy import Policy

_ASK_SECONDS = 10.0
"""A broker that was just started has no coordinator for the group yet."""
_FROM_ENVIRONMENT = "bootstrapServersFromEnv"


def explain(
    *,
    scaled_object: Annotated[
        str, typer.Option(help="A policy by name or path: the ScaledObject to explain.")
    ],
    trigger: Annotated[
        int | None, typer.Option(min=0, help="Only this trigger, counted from 0.")
    ] = None,
    scaler: Annotated[
        str | None,
        typer.Option(help="HOST:PORT of a running lag scaler: the decision that it serves."),
    ] = None,
    bootstrap_servers: Annotated[
        str | None, typer.Option(help="Ask this Kafka instead of the one in the file.")
    ] = None,
    for_seconds: Annotated[
        float,
        typer.Option(
            min=0, max=86_400, help="Without --scaler: seconds to sample before explaining."
        ),
    ] = 0.0,
    as_json: JsonOption = False,
) -> int:
    """Print step by step how a ScaledObject's triggers turn the current lag into replicas.

    Reads offsets and changes nothing. Persistent lag needs samples: a single read only shows
    whether lag is at the threshold; --for-seconds takes more, --scaler asks a server that has them.
    """
    from lagbench.adapters.grpc.external_scaler_client import ask_for_steps
    from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
    from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger
    from lagbench.core.keda.triggers.trigger_types import ExternalTrigger
    from lagbench.core.policy.explained_steps import explain_sampled, version_notes

    policy, spec = _read_policy(scaled_object, bootstrap_servers)
    if trigger is not None and trigger >= len(spec.triggers):
        refuse("--trigger", trigger, f"0 to {len(spec.triggers) - 1}", where=scaled_object)
    found: list[tuple[Trigger, Explanation | None]] = []
    for item in spec.triggers if trigger is None else (spec.triggers[trigger],):
        given, explained = item.parameters, None
        if isinstance(given, KafkaTrigger):
            environment = _environment(given.bootstrap_servers, bootstrap_servers)
            explained = _of_kafka(spec, item, given, environment)
        elif isinstance(given, ExternalTrigger) and scaler is None:
            steps = _sampled_steps(given.metadata, for_seconds, bootstrap_servers)
            explained = explain_sampled(steps)
        elif isinstance(given, ExternalTrigger):
            names = {"namespace": spec.namespace, "name": spec.name}
            steps = ask_for_steps(str(scaler), **names, metadata=given.metadata)
            explained = explain_sampled(steps)
        elif isinstance(given, PrometheusTrigger):
            explained = _of_prometheus(spec, item, given)
        found.append((item, explained))
        if not as_json:
            _print(Terminal(), spec, item, explained)
    if as_json:
        print_json({**_document(spec, found), "versions": version_notes(policy)})
    else:
        _print_notes(Terminal(), spec, version_notes(policy))
    return ExitCode.PASS


def _print(
    console: Terminal, spec: ScaledObjectSpec, item: Trigger, explained: Explanation | None
) -> None:
    """Print the cause, then the lag of each partition and the steps that lead to it."""
    console.print(Text(f"trigger {item.index}: {item.type}", "bold"), f"of {spec.name}")
    if explained is None:
        console.print("decided without lag: nothing to read", style="dim")
        return
    if explained.cause and spec.modifiers is None:
        console.print(explained.cause)
    rows = []
    for line in explained.partitions:
        committed = line.offsets.committed
        place = (line.topic, str(line.partition), f"{line.offsets.end:,}")
        known = "none" if committed is None else f"{committed:,}"
        rows.append((*place, known, f"{line.lag:,}", line.rule))
    if rows:
        headings = ("topic", "partition", "end", "committed", "lag", "by")
        console.table(headings, rows, folded=headings)
    steps = [(step.name, step.seen, step.rule, step.result) for step in explained.steps]
    of_a_step = ("step", "seen", "rule", "result")
    console.table(of_a_step, steps, folded=of_a_step)


def _print_notes(console: Terminal, spec: ScaledObjectSpec, notes: Sequence[str]) -> None:
    if spec.modifiers is not None:
        target = f"the HPA compares the formula's result with its target {spec.modifiers.target}"
        text = f"{target}: the step replicas of a trigger does not apply"
        console.print(text, style="dim")
    for note in notes:
        console.print(note, style="dim")


def _document(
    spec: ScaledObjectSpec, found: Sequence[tuple[Trigger, Explanation | None]]
) -> dict[str, Any]:
    """Return what is printed as data; a trigger without lag has no steps."""
    from lagbench.core.policy.explained_steps import Explanation

    triggers = []
    for item, explained in found:
        read = explained or Explanation(())
        steps = [step._asdict() for step in read.steps]
        said = {"cause": (spec.modifiers is None and read.cause) or None, "steps": steps}
        named = {"index": item.index, "type": item.type}
        triggers.append({**named, **said, "partitions": read.partitions})
    formula = None if spec.modifiers is None else spec.modifiers.formula
    return {"name": spec.name, "formula": formula, "triggers": triggers}


def _read_policy(name: str, bootstrap_servers: str | None) -> tuple[Policy, ScaledObjectSpec]:
    from lagbench.catalog.catalog import read_objects
    from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec
    from lagbench.core.keda.triggers.trigger_authentication import is_unknown
    from lagbench.core.policy.policy import Policy, refuse_broken_triggers
    from lagbench.core.policy.review.policy_file import target_environment, title_of

    def mapping(value: object) -> dict[str, Any]:
        return value if isinstance(value, dict) else {}

    where, documents = read_objects([name])
    scaled = [each for each in documents if mapping(each).get("kind") == "ScaledObject"]
    if len(scaled) != 1:
        refuse("kind", ", ".join(map(title_of, scaled)) or "none", "one ScaledObject", where=where)
    found: dict[str, Any] = scaled[0]
    if bootstrap_servers is not None:
        triggers = mapping(found.get("spec")).get("triggers")
        for trigger in triggers if isinstance(triggers, list) else ():
            metadata = mapping(mapping(trigger).get("metadata"))
            if {"bootstrapServers", _FROM_ENVIRONMENT} & metadata.keys():
                kept = {key: text for key, text in metadata.items() if key != _FROM_ENVIRONMENT}
                trigger["metadata"] = {**kept, "bootstrapServers": bootstrap_servers}
    of_target = target_environment(found, documents)
    around = replace(of_target, values_known={**of_target, **os.environ})
    checked = Policy.load(found, where=where, environment=around)
    spec = checked.spec
    if not isinstance(spec, ScaledObjectSpec):
        refuse("kind", "none", "one ScaledObject", where=where)
    for index, trigger in enumerate(checked.manifest["spec"]["triggers"]):
        for key, variable in trigger["metadata"].items():
            if key.endswith("FromEnv") and is_unknown(around.get(variable, "")):
                allowed = "a variable of this command, or of the target in the same file"
                field = f"spec.triggers[{index}].metadata.{key}"
                refuse(field, variable, allowed, where=where)
    refuse_broken_triggers(checked)
    return checked, spec


def _environment(servers: Sequence[str], named: str | None) -> Mapping[str, str]:
    """Return the environment with the log-in for a Kafka that a ScaledObject names.

    The file of ``LAGBENCH_KAFKA_CONFIG`` counts unless it names other servers; for those ``named``
    on the command line it always does.
    """
    from pod_program.kafka_settings import without_foreign_file

    own = ",".join(servers)
    environment = os.environ if named is not None else without_foreign_file(own, os.environ)
    return {**environment, "KAFKA_BROKERS": own}


def _of_kafka(
    spec: ScaledObjectSpec, item: Trigger, trigger: KafkaTrigger, environment: Mapping[str, str]
) -> Explanation:
    from lagbench.adapters.kafka.kafka_admin import ask_again
    from lagbench.adapters.kafka.kafka_lag import open_trigger, read_trigger_offsets
    from lagbench.core.policy.explained_steps import explain_kafka

    with contextlib.closing(open_trigger(trigger, environment)) as client:
        try:
            offsets = ask_again(
                lambda: read_trigger_offsets(client, trigger), for_seconds=_ASK_SECONDS
            )
        except ValueError as error:
            raise NotReady(f"KEDA would fail this poll: {error}") from error
    limits = {"min_replicas": spec.floor, "max_replicas": spec.max_replica_count}
    return explain_kafka(trigger, offsets, **limits, metric_type=item.metric_type)


def _of_prometheus(
    spec: ScaledObjectSpec, trigger: Trigger, parameters: PrometheusTrigger
) -> Explanation:
    from lagbench.adapters.prometheus import PrometheusClient
    from lagbench.core.keda.loop.source_metrics import read_answer
    from lagbench.core.policy.explained_steps import explain_prometheus

    with contextlib.closing(PrometheusClient(parameters, parameters.server_address)) as client:
        try:
            reading = read_answer(parameters, *client.ask())
        except NotReady as error:
            raise NotReady(f"KEDA would fail this poll: {error}") from error
    limits = {"min_replicas": spec.floor, "max_replicas": spec.max_replica_count}
    return explain_prometheus(trigger, parameters, reading, **limits)


def _sampled_steps(
    metadata: Mapping[str, str], for_seconds: float, named_servers: str | None
) -> tuple[Step, ...]:
    """Return the steps over samples taken here, at least one."""
    from lag_scaler.addresses import KafkaCluster
    from lag_scaler.explain import explain as explain_decision
    from lag_scaler.metadata import parse_lag_settings
    from lag_scaler.sources import open_source
    from lag_scaler.window import GroupWindow

    settings = parse_lag_settings(metadata, os.environ)
    interval = settings.rule.sampling_interval_seconds
    window = GroupWindow(interval)
    watched = window.watch(settings.rule)
    environment: Mapping[str, str] = os.environ
    if isinstance(settings.source, KafkaCluster):
        environment = _environment(settings.source.bootstrap_servers, named_servers)
    ends_at, pause = time.monotonic() + for_seconds, threading.Event()
    with contextlib.closing(open_source(settings.source, time.time_ns, environment)) as source:
        while True:
            began_at = time.monotonic()
            window.add(source.sample([settings.group_topic])[settings.group_topic])
            if began_at + interval > ends_at:
                return explain_decision(watched.decide(time.time_ns()), time.time_ns())
            pause.wait(max(0.0, began_at + interval - time.monotonic()))
