"""Build the Jobs of a run from the committed ones: each is tried once."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from lagbench.core.cluster.group_manifests import Manifest
from lagbench.core.cluster.manifests import (
    RunTarget,
    first_container,
    named,
    pod_template,
    set_arguments,
    set_environment,
)
from lagbench.core.scenario import RunNames, Scenario, flag_text, profile_text
from lagbench.core.scenario.stream import Tail


def job_for_run(
    job: Mapping[str, Any],
    target: RunTarget,
    *,
    name: str,
    environment: Mapping[str, str],
    arguments: Mapping[str, str],
) -> Manifest:
    """Return a Job of the run that is tried once: a second try would do its work twice.

    :param environment: texts that the program gets as they are, also with ``$(NAME)`` in them.
    """
    manifest = copy.deepcopy(dict(job))
    named(manifest, name, target)
    manifest["spec"]["backoffLimit"] = 0
    pod = pod_template(manifest, target)
    pod["restartPolicy"] = "Never"
    container = first_container(pod)
    servers = {"KAFKA_BOOTSTRAP_SERVERS": target.bootstrap_servers}
    plain = {name: text.replace("$", "$$") for name, text in environment.items()}
    set_environment(container, {**servers, **plain})
    set_arguments(container, arguments)
    return manifest


def producer_job_for_run(
    job: Mapping[str, Any],
    target: RunTarget,
    scenario: Scenario,
    *,
    tail: Tail | None,
    starts_at_ns: int | None = None,
    payload_file: str | None = None,
) -> Manifest:
    """Return the producer's Job under the run's one name, so that creating it twice is a conflict.

    The profile is passed as JSON in a variable, because a trace does not fit into flags. With a
    ``tail`` the base load continues until the Job is deleted. The stream starts at
    ``starts_at_ns`` (unix ns), None: as soon as it can. ``payload_file`` has the samples of a
    scenario with a payload.
    """
    return job_for_run(
        job,
        target,
        name=target.names.producer_job,
        environment={"PROFILE_JSON": profile_text(scenario.profile)},
        arguments={
            "run-id": target.names.run_id,
            "partitions": str(scenario.partitions),
            **_growth_arguments(scenario),
            "seed": str(scenario.seed),
            "entities": str(scenario.keys.entities),
            "zipf-s": flag_text(scenario.keys.zipf_s),
            **(_tail_arguments(tail) if tail is not None else {}),
            **_payload_arguments(scenario, payload_file),
            **({} if starts_at_ns is None else {"starts-at-ns": str(starts_at_ns)}),
            **second_telemetry(target.names, scenario),
        },
    )


def second_telemetry(names: RunNames, scenario: Scenario) -> dict[str, str]:
    """Return the flag of a program of the run that both groups' telemetry reports."""
    has_second = scenario.second_group is not None
    return {"second-telemetry-topic": names.second.telemetry_topic} if has_second else {}


def _growth_arguments(scenario: Scenario) -> dict[str, str]:
    growths = scenario.partition_plan.text
    return {"grow-partitions": growths} if growths else {}


def _payload_arguments(scenario: Scenario, file: str | None) -> dict[str, str]:
    payload = scenario.payload
    if payload is None or file is None:
        return {}
    key = {} if payload.key_field is None else {"payload-key-field": payload.key_field}
    return {"payload-file": file, "payload-format": payload.format, **key}


def _tail_arguments(tail: Tail) -> dict[str, str]:
    return {
        "tail-rate": flag_text(tail.rate_per_second),
        "tail-most-seconds": flag_text(tail.most_seconds),
    }
