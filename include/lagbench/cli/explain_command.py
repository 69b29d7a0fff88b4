"""``lagbench explain``: the decision of a ScaledObject's lag triggers for the current lag."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.text import Text

from lagbench.cli.terminal import Terminal, table_of
from lagbench.errors import ExitCode, NotReady, WrongInput

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
    from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
    from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger
    from lagbench.core.keda.triggers.trigger_types import ExternalTrigger

    spec = _read_spec(scaled_object, bootstrap_servers)
    console = Terminal()
    if trigger is not None and trigger >= len(spec.triggers):
        allowed = f"0 to {len(spec.triggers) - 1}"
        _refuse(scaled_object, "--trigger", trigger, allowed)
    for item in spec.triggers if trigger is None else (spec.triggers[trigger],):
        console.print(Text(f"trigger {item.index}: {item.type}", "bold"), f"of {spec.name}")
        if isinstance(item.parameters, KafkaTrigger):
            environment = _environment(item.parameters.bootstrap_servers, bootstrap_servers)
            _explain_kafka(console, spec, item, item.parameters, environment)
        elif isinstance(item.parameters, ExternalTrigger):
            metadata = item.parameters.metadata
            if scaler is None:
                steps = _sampled_steps(metadata, for_seconds, bootstrap_servers)
            else:
                from lagbench.adapters.grpc.external_scaler_client import ask_for_steps

                names = {"namespace": spec.namespace, "name": spec.name}
                steps = ask_for_steps(scaler, **names, metadata=metadata)
            _print_steps(console, steps)
        elif isinstance(item.parameters, PrometheusTrigger):
            _print_steps(console, _prometheus_steps(spec, item, item.parameters))
        else:
            console.print("decided without lag: nothing to read", style="dim")
    if spec.modifiers is not None:
        target = f"the HPA compares the formula's result with its target {spec.modifiers.target}"
        console.print(f"{target}: the step replicas of a trigger does not apply", style="dim")
    return ExitCode.PASS


def _refuse(where: str, field: str, value: object, allowed: str) -> NoReturn:
    raise WrongInput(where=where, field=field, value=value, allowed=allowed)


def _read_spec(name: str, bootstrap_servers: str | None) -> ScaledObjectSpec:
    from lagbench.catalog.catalog import read_objects
    from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec
    from lagbench.core.keda.triggers.trigger_authentication import is_unknown
    from lagbench.core.policy.checked_policy import admitted_policy, refuse_broken_triggers
    from lagbench.core.policy.review.policy_file import target_environment

    where, documents = read_objects([name])
    found: dict[str, Any] | None = next(
        (each for each in documents if _mapping(each).get("kind") == "ScaledObject"), None
    )
    if found is None:
        _refuse(where, "kind", "none", "one ScaledObject")
    if bootstrap_servers is not None:
        triggers = _mapping(found.get("spec")).get("triggers")
        for trigger in triggers if isinstance(triggers, list) else ():
            metadata = _mapping(_mapping(trigger).get("metadata"))
            if {"bootstrapServers", _FROM_ENVIRONMENT} & metadata.keys():
                kept = {key: text for key, text in metadata.items() if key != _FROM_ENVIRONMENT}
                trigger["metadata"] = {**kept, "bootstrapServers": bootstrap_servers}
    of_target = target_environment(found, documents)
    around = replace(of_target, values_known={**of_target, **os.environ})
    checked = admitted_policy(found, where=where, environment=around)
    spec = checked.spec
    if not isinstance(spec, ScaledObjectSpec):
        _refuse(where, "kind", "none", "one ScaledObject")
    for index, trigger in enumerate(checked.manifest["spec"]["triggers"]):
        for key, variable in trigger["metadata"].items():
            if key.endswith("FromEnv") and is_unknown(around.get(variable, "")):
                allowed = "a variable of this command, or of the target in the same file"
                _refuse(where, f"spec.triggers[{index}].metadata.{key}", variable, allowed)
    refuse_broken_triggers(spec, checked.manifest, where=where)
    return spec


def _mapping(value: object) -> dict[str, Any]:
    """Return a mapping as it is, and an empty one for anything else in its place."""
    return value if isinstance(value, dict) else {}


def _environment(servers: Sequence[str], named: str | None) -> Mapping[str, str]:
    """Return the environment with the log-in for a Kafka that a ScaledObject names.

    The file of ``LAGBENCH_KAFKA_CONFIG`` counts unless it names other servers; for those ``named``
    on the command line it always does.
    """
    from pod_program.kafka_settings import without_foreign_file

    own = ",".join(servers)
    environment = os.environ if named is not None else without_foreign_file(own, os.environ)
    return {**environment, "KAFKA_BROKERS": own}


def _explain_kafka(
    console: Terminal,
    spec: ScaledObjectSpec,
    item: Trigger,
    trigger: KafkaTrigger,
    environment: Mapping[str, str],
) -> None:
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
    rows = [
        (
            line.topic,
            str(line.partition),
            f"{line.offsets.end:,}",
            "none" if line.offsets.committed is None else f"{line.offsets.committed:,}",
            f"{line.lag:,}",
            line.rule,
        )
        for line in explained.partitions
    ]
    headings = ("topic", "partition", "end", "committed", "lag", "by")
    console.print(table_of(headings, rows, is_whole=False))
    _print_steps(console, explained.steps)


def _prometheus_steps(
    spec: ScaledObjectSpec, trigger: Trigger, parameters: PrometheusTrigger
) -> tuple[Step, ...]:
    from lagbench.adapters.prometheus.prometheus_query import PrometheusClient
    from lagbench.core.keda.loop.source_metrics import read_answer
    from lagbench.core.policy.explained_steps import explain_prometheus

    client = PrometheusClient(parameters, parameters.server_address)
    try:
        reading = read_answer(parameters, *client.ask())
    except NotReady as error:
        raise NotReady(f"KEDA would fail this poll: {error}") from error
    finally:
        client.close()
    limits = {"min_replicas": spec.floor, "max_replicas": spec.max_replica_count}
    return explain_prometheus(trigger, parameters, reading, **limits)


def _sampled_steps(
    metadata: Mapping[str, str], for_seconds: float, named_servers: str | None
) -> tuple[Step, ...]:
    """Return the steps over samples taken here, at least one."""
    import threading
    import time

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
    source = open_source(settings.source, time.time_ns, environment)
    ends_at, pause = time.monotonic() + for_seconds, threading.Event()
    try:
        while True:
            began_at = time.monotonic()
            window.add(source.sample([settings.group_topic])[settings.group_topic])
            if began_at + interval > ends_at:
                return explain_decision(watched.decide(time.time_ns()), time.time_ns())
            pause.wait(max(0.0, began_at + interval - time.monotonic()))
    finally:
        source.close()


def _print_steps(console: Terminal, steps: Sequence[Step]) -> None:
    rows = [(step.name, step.seen, step.rule, step.result) for step in steps]
    console.print(table_of(("step", "seen", "rule", "result"), rows, is_whole=False))
