"""Collect the versions that only a run's tasks can see, for the run's manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench import project
from lagbench.core.cluster.policy_manifest import SCALED_OBJECT
from lagbench.core.keda.loop.handover import is_handed_over
from lagbench.core.keda.loop.hpa_builder import KEDA_VERSION, VERSION_LABEL
from lagbench.core.spark.settings import SparkPlace
from lagbench.embedded import bench
from lagbench.embedded.jars import BROKER
from lagbench.embedded.java import find_java

UNKNOWN = "unknown"
"""Another environment than each version that was read."""


def started_versions(place: SparkPlace) -> dict[str, str]:
    """Return the versions of the broker and of the Java that Spark's driver runs in.

    An unknown version is left out: a foreign Kafka reports none to clients, and a driver in a pod
    has its image's Java.
    """
    versions = {}
    state = bench.running(project.state_dir())
    if state is not None and state.kafka == "embedded":
        versions["kafka-broker"] = BROKER.version
    if place is not SparkPlace.KUBERNETES:
        versions["java"] = find_java().version
    return versions


def autoscaler_version(
    policy: Mapping[str, Any], hpa: Mapping[str, Any], *, is_embedded: bool
) -> dict[str, str]:
    """Return the version of the KEDA that drives ``policy``, or of our autoscaler's rules.

    ``hpa``: the live HPA, on which KEDA writes its version; ``unknown`` if it is not there. Empty
    for a policy that is an HPA: Kubernetes alone scales then, and the manifest has its version.
    """
    if policy["kind"] != SCALED_OBJECT:
        return {}
    if is_embedded or is_handed_over(policy):
        return {"keda-rules": KEDA_VERSION}
    version = ((hpa.get("metadata") or {}).get("labels") or {}).get(VERSION_LABEL)
    return {"keda": UNKNOWN if version is None else str(version)}
