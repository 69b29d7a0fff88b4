"""``lagbench observe``: record and judge a consumer group that is there; nothing is changed."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagbench.cli.options import SloOption, new_id, number, refuse, slo_limits
from lagbench.cli.terminal import Terminal
from lagbench.errors import NotReady

if TYPE_CHECKING:
    from lagbench.adapters.kafka.kafka_admin import GroupSnapshot
    from lagbench.adapters.runs.run_folder import RunFolder
    from lagbench.core.measures.evidence.observed_group import Observation
    from lagbench.core.telemetry.records_of_programs import Record
    from lagbench.orchestrator.observed_target import ObservedPlace, ObservedWorkload

SHORTEST_SECONDS, LONGEST_SECONDS = 5.0, 86_400.0
_SCENARIO = "observed"
_LINE_SECONDS, _LINES = 5.0, 60
"""Without a terminal: a line every 5 s, or about 60 of a long observation."""


@dataclass(slots=True)
class _Subject:
    """The group and its surroundings."""

    group: str
    topic: str
    settings: Mapping[str, str]
    snapshot: GroupSnapshot
    place: ObservedPlace | None
    workload: ObservedWorkload | None = None
    kubernetes: str | None = None  # of the cluster; None: not asked, or not told


def observe(
    *,
    group: Annotated[str, typer.Option(help="The consumer group.")],
    topic: Annotated[str, typer.Option(help="The topic that it reads.")],
    deployment: Annotated[
        str | None, typer.Option(help="Its Deployment or StatefulSet; needs --target.")
    ] = None,
    scaled_object: Annotated[
        str | None, typer.Option(help="The ScaledObject that scales it; needs --target.")
    ] = None,
    duration: Annotated[
        str, typer.Option("--for", help="A duration, such as 90s, 10m or 1h.")
    ] = "10m",
    target: Annotated[
        str | None,
        typer.Option(help="Its cluster: context:NAME of a kubeconfig, kind, or embedded."),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(help="Its namespace; default: that of the context.")
    ] = None,
    kafka_config: Annotated[
        Path | None, typer.Option(help="A file of librdkafka settings: servers, TLS, SASL.")
    ] = None,
    bootstrap_servers: Annotated[
        str | None, typer.Option(help="host:port of Kafka, instead of the one in the settings.")
    ] = None,
    pod_rate: Annotated[
        float | None, number("Messages per second of one pod; default: as it shows.")
    ] = None,
    slo: SloOption = None,
) -> int:
    """Observe a consumer group that is there, and judge it: no traffic, no pods, no changes.

    Kafka needs the right Describe on the group and the topic; Kubernetes get, list and watch.
    Without a limit it only reports, with exit code 0. Ctrl-C ends the observation early; the
    readings until then are judged.
    """
    from lagbench.cli.verdict_table import print_verdict
    from lagbench.orchestrator.observed_target import (
        find_place,
        find_workload,
        kafka_settings,
        require_group,
    )
    from lagbench.report.outcome_files import report_again
    from lagbench.results.observed_run import REPLAY_FILE, complete_run

    seconds, limits = _seconds(duration), slo_limits(slo)
    console = Terminal()
    names_workload = deployment is not None or scaled_object is not None
    if names_workload and target is None:
        where = "where --deployment and --scaled-object are"
        refuse("--target", "", f"context:NAME, kind or embedded: {where}")
    # Everything that is observed is found before a folder is made.
    place = None if target is None else find_place(target, namespace)
    kafka = kafka_settings(kafka_config, bootstrap_servers, place)
    subject = _Subject(group, topic, kafka, require_group(kafka, group, topic), place)
    if place is not None and names_workload:
        with place.open_kube() as kube:
            subject.workload = find_workload(kube, deployment, scaled_object)
            with suppress(NotReady):
                subject.kubernetes = kube.server_version()
    folder = _new_folder(subject, seconds, limits, pod_rate)
    console.say(f"observing group {group} on topic {topic} for {seconds:g} s: {folder.path}")
    if subject.workload is not None and subject.workload.policy_unknown:
        console.say(f"policy unknown: {subject.workload.policy_unknown}")
    _record(console, subject, folder, seconds)
    _review(console, subject, folder, complete_run(folder))
    report_again(folder)
    console.print()
    code = print_verdict(console, folder)
    console.say(
        f"replay this load: {shlex.join(['lagbench', 'run', str(folder.path / REPLAY_FILE)])}"
    )
    return code


def _seconds(text: str) -> float:
    from lagbench.core.keda.triggers.trigger_parameters import duration_seconds_of

    seconds = duration_seconds_of(text)
    if seconds is None or not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
        shortest = f"{SHORTEST_SECONDS:g} s"
        refuse("--for", text, f"a duration such as 90s, 10m or 1h, from {shortest} to 24h")
    return seconds


def _new_folder(
    subject: _Subject, seconds: float, limits: Mapping[str, Any], pod_rate: float | None
) -> RunFolder:
    import yaml

    from lagbench.adapters.runs.run_folder import RunFolder
    from lagbench.adapters.runs.run_manifest import write_manifest
    from lagbench.core.measures.evidence.observed_group import (
        NO_POLICY,
        OBSERVED_FIELD,
        Observation,
    )
    from lagbench.results.observed_run import LIMITS_FIELD, POD_RATE_FIELD

    folder, workload = RunFolder.create(new_id(_SCENARIO)), subject.workload
    policy = None if workload is None else workload.policy
    seen = Observation(
        group=subject.group,
        topic=subject.topic,
        deployment=None if workload is None else workload.name,
        policy=None if workload is None else workload.policy_name,
        policy_unknown="" if workload is None else workload.policy_unknown,
        assignor=subject.snapshot.assignor or None,
    )
    write_manifest(
        folder,
        scenario=_SCENARIO,
        policy=NO_POLICY if policy is None else str(policy["metadata"]["name"]).replace(".", "-"),
        seed=0,
        fidelity="unknown" if subject.place is None or workload is None else subject.place.fidelity,
        conf={
            "group": subject.group,
            "topic": subject.topic,
            "seconds": seconds,
            LIMITS_FIELD: dict(limits),
            POD_RATE_FIELD: pod_rate,
        },
        scenario_text="",  # the load is known at the end
        policy_text="" if policy is None else yaml.safe_dump(policy, sort_keys=False),
        created_at=time.time_ns(),
    )
    cluster = {"cluster": {"kubernetes": subject.kubernetes}} if subject.kubernetes else {}
    folder.update_manifest(**{OBSERVED_FIELD: seen.as_dict()}, **cluster)
    return folder


def _record(console: Terminal, subject: _Subject, folder: RunFolder, seconds: float) -> None:
    """Observe until the time has passed, or the user stops it."""
    from lagbench.programs.recorder.sources import GroupObserver, ObservedCluster
    from lagbench.results.observed_run import RECORDS_FILE

    cluster, place, workload = None, subject.place, subject.workload
    if place is not None and workload is not None:
        cluster = ObservedCluster(
            place.open_client,
            place.namespace,
            workload.name,
            workload.kind,
            workload.pod_selector,
            has_scaled_object=workload.policy is not None
            and workload.policy["kind"] == "ScaledObject",
        )
    observer = GroupObserver(
        folder.path / RECORDS_FILE,
        subject.settings,
        group=subject.group,
        topic=subject.topic,
        cluster=cluster,
    )
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with observer, console.status("observing") as status:
            newest, began = observer.records.newest, time.monotonic()
            said = -float(LONGEST_SECONDS)  # the first reading is said at once

            def show() -> None:
                nonlocal said
                now = time.monotonic()
                done = f"{now - began:.0f} of {seconds:g} s"
                status.update(f"{done}  {reading_text(newest, now=time.time_ns())}")
                if not console.is_terminal and now - said >= max(_LINE_SECONDS, seconds / _LINES):
                    said = now
                    console.say(f"{done:>14}  {reading_text(newest, now=time.time_ns())}")

            observer.wait(seconds, show)
    except KeyboardInterrupt:
        console.say("stopped early: the readings until now are judged")
    finally:
        signal.signal(signal.SIGTERM, before)


def reading_text(newest: Mapping[str, Record], *, now: int) -> str:
    """Return the newest readings, by the name of their class, in a line.

    An unknown lag is a dash, and so is a reading that was not renewed until ``now`` (unix ns): each
    is taken once a second.
    """
    from lagbench.core.measures.evidence.lag_readings import GAP_SECONDS
    from lagbench.core.measures.model import NANOSECONDS
    from lagbench.core.telemetry.records_of_recorder import GroupSample, LagSample, ReplicaSample
    from lagbench.programs.recorder.kafka_readings import exposed_lag

    parts = []
    for sample in newest.values():
        is_fresh = now - sample.at <= GAP_SECONDS * NANOSECONDS
        if isinstance(sample, LagSample):
            found = exposed_lag(sample)
            total = found.total if is_fresh and found is not None else None
            parts.append((0, f"lag {'–' if total is None else f'{total:,.0f}'}"))
        elif isinstance(sample, GroupSample):
            text = f"{sample.members} member{'s' * (sample.members != 1)}, {sample.state}"
            parts.append((1, text if is_fresh else "members –"))
        elif isinstance(sample, ReplicaSample):
            text = f"{sample.ready} of {sample.spec} pods ready"
            parts.append((2, text if is_fresh else "pods ready –"))
    return "observing: " + (", ".join(text for _, text in sorted(parts)) or "no reading yet")


def _review(console: Terminal, subject: _Subject, folder: RunFolder, seen: Observation) -> None:
    """Print the review of the policy, with its loop gain, and write it to ``policy_check.json``."""
    from lagbench.cli.policy_command import print_review
    from lagbench.core.policy.review.policy_file import review_documents
    from lagbench.core.policy.review.subject import PolicyContext
    from lagbench.results.observed_run import POLICY_CHECK_FILE, observed_partitions

    place, rate = subject.place, seen.pod_rate_per_second
    policy = None if subject.workload is None else subject.workload.policy
    if place is None or policy is None:
        return
    context = PolicyContext(partitions=observed_partitions(folder), pod_rate=rate)
    facts = place.facts(policy)
    review = review_documents([policy], where=place.name, context=context, facts=facts)
    print_review(console, f"in {place.name}", review, context)
    found = review.policies[0]
    folder.write_json(
        POLICY_CHECK_FILE,
        {
            "kind": found.kind,
            "name": found.name,
            "accepted": found.is_accepted,
            "can_run": found.can_run,
            "loop_gain": found.loop_gain,
            "pod_rate_per_second": rate,
            "findings": [finding.as_dict() for finding in found.findings],
        },
    )
