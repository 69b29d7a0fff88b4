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

from lagbench.cli.options import refuse
from lagbench.cli.terminal import Terminal
from lagbench.errors import ExitCode, NotReady

if TYPE_CHECKING:
    from lag_scaler.explain import Step
    from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec, Trigger
    from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
    from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger

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
) -> int:
    """Print step by step how a ScaledObject's triggers turn the current lag into replicas.

    Reads offsets and changes nothing. Persistent lag needs samples: a single read only shows
    whether lag is at the threshold; --for-seconds takes more, --scaler asks a server that has them.
    """
    from lagbench.adapters.grpc.external_scaler_client import ask_for_steps
    from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
    from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger
    from lagbench.core.keda.triggers.trigger_types import ExternalTrigger

    spec = _read_spec(scaled_object, bootstrap_servers)
    console = Terminal()
    if trigger is not None and trigger >= len(spec.triggers):
        refuse("--trigger", trigger, f"0 to {len(spec.triggers) - 1}", where=scaled_object)
    for item in spec.triggers if trigger is None else (spec.triggers[trigger],):
        console.print(Text(f"trigger {item.index}: {item.type}", "bold"), f"of {spec.name}")
        given = item.parameters
        if isinstance(given, KafkaTrigger):
            environment = _environment(given.bootstrap_servers, bootstrap_servers)
            steps = _kafka_steps(console, spec, item, given, environment)
        elif isinstance(given, ExternalTrigger) and scaler is None:
            steps = _sampled_steps(given.metadata, for_seconds, bootstrap_servers)
        elif isinstance(given, ExternalTrigger):
            names = {"namespace": spec.namespace, "name": spec.name}
            steps = ask_for_steps(str(scaler), **names, metadata=given.metadata)
        elif isinstance(given, PrometheusTrigger):
            steps = _prometheus_steps(spec, item, given)
        else:
            console.print("decided without lag: nothing to read", style="dim")
            continue
        rows = [(step.name, step.seen, step.rule, step.result) for step in steps]
        headings = ("step", "seen", "rule", "result")
        console.table(headings, rows, folded=headings)
    if spec.modifiers is not None:
        target = f"the HPA compares the formula's result with its target {spec.modifiers.target}"
        console.print(f"{target}: the step replicas of a trigger does not apply", style="dim")
    return ExitCode.PASS


def _read_spec(name: str, bootstrap_servers: str | None) -> ScaledObjectSpec:
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
    return spec


def _environment(servers: Sequence[str], named: str | None) -> Mapping[str, str]:
    """Return the environment with the log-in for a Kafka that a ScaledObject names.

    The file of ``LAGBENCH_KAFKA_CONFIG`` counts unless it names other servers; for those ``named``
    on the command line it always does.
    """
    from pod_program.kafka_settings import without_foreign_file

    own = ",".join(servers)
    environment = os.environ if named is not None else without_foreign_file(own, os.environ)
    return {**environment, "KAFKA_BROKERS": own}


def _kafka_steps(
    console: Terminal,
    spec: ScaledObjectSpec,
    item: Trigger,
    trigger: KafkaTrigger,
    environment: Mapping[str, str],
) -> tuple[Step, ...]:
    """Print the lag of each partition; return the steps from there."""
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
    explained = explain_kafka(
        trigger,
        offsets,
        min_replicas=spec.floor,
        max_replicas=spec.max_replica_count,
        metric_type=item.metric_type,
    )
    rows = []
    for line in explained.partitions:
        committed = line.offsets.committed
        place = (line.topic, str(line.partition), f"{line.offsets.end:,}")
        known = "none" if committed is None else f"{committed:,}"
        rows.append((*place, known, f"{line.lag:,}", line.rule))
    headings = ("topic", "partition", "end", "committed", "lag", "by")
    console.table(headings, rows, folded=headings)
    return explained.steps


def _prometheus_steps(
    spec: ScaledObjectSpec, trigger: Trigger, parameters: PrometheusTrigger
) -> tuple[Step, ...]:
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
