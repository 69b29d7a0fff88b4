"""Decide whether this Airflow may use a namespace, based on the Lease ``lagbench``.

A run starts by deleting every object with a run's label, so a namespace holds one run at a time.
Within one Airflow the Dag ensures this; between Airflows the Lease does. For an Airflow it is

* free, if there is none or it names no holder;
* its own, if it names this Airflow, whose run is the same one, or has ended or died;
* expired, if ``renewTime`` plus ``leaseDurationSeconds``, the longest a run can take, has passed;
* held in every other case, even if it has no end: a person created it, or broke it.

Instants are those of the API server, from the ``Date`` header of its answers, so that clocks of two
machines are never compared.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from lagbench.core.cluster.spark_connection import time_limit_seconds
from lagbench.core.kubernetes_values import NS_PER_SECOND, format_instant, parse_instant_ns
from lagbench.core.scenario.actions import actions_seconds
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.run_names import RUN_ID_ANNOTATION
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream_tail import TAIL_MARGIN_SECONDS

LEASE = "lagbench"
"""The Lease's name, in the namespace of the run."""
TRIES = 3
"""Most tries of a wait of the run; each try starts the wait again."""
AROUND_THE_LOAD_SECONDS = 12 * 3600
"""Time for everything besides load, drain, settling and messages: the limits of those tasks, with
all their tries, add up to less."""
SWEEP_SECONDS = 3600
"""For a clean-up without a run: three tries of ten minutes, and a margin."""


class Standing(StrEnum):
    """The state of the Lease for one Airflow."""

    FREE = "free"
    OWN = "own"
    EXPIRED = "expired"
    HELD = "held by another"


@dataclass(frozen=True, slots=True)
class LeaseClaim:
    """An Airflow's entry in the Lease: holder, run and longest duration."""

    holder: str
    run_id: str
    duration_seconds: int


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of the Lease; None for a missing field."""

    holder: str | None
    run_id: str | None
    acquired_at_ns: int | None
    renewed_at_ns: int | None
    duration_seconds: int | None

    @property
    def until_ns(self) -> int | None:
        """Its latest end; None: not stated."""
        if self.renewed_at_ns is None or self.duration_seconds is None:
            return None
        return self.renewed_at_ns + self.duration_seconds * NS_PER_SECOND


def lease_record(lease: Mapping[str, Any]) -> LeaseRecord:
    """Read a Lease of coordination.k8s.io/v1."""
    spec = lease.get("spec") or {}
    annotations = lease["metadata"].get("annotations") or {}
    acquired_at, renewed_at = spec.get("acquireTime"), spec.get("renewTime")
    return LeaseRecord(
        holder=spec.get("holderIdentity") or None,  # client-go releases with an empty name
        run_id=annotations.get(RUN_ID_ANNOTATION),
        acquired_at_ns=None if acquired_at is None else parse_instant_ns(acquired_at),
        renewed_at_ns=None if renewed_at is None else parse_instant_ns(renewed_at),
        duration_seconds=spec.get("leaseDurationSeconds"),
    )


def lease_standing(found: LeaseRecord | None, holder: str, now_ns: int) -> Standing:
    """Return the state of the Lease for ``holder`` at the API server's ``now_ns``."""
    if found is None or found.holder is None:
        return Standing.FREE
    if found.holder == holder:
        return Standing.OWN
    if found.until_ns is not None and found.until_ns < now_ns:
        return Standing.EXPIRED
    return Standing.HELD


def claimed_lease(
    found: Mapping[str, Any] | None, claim: LeaseClaim, now_ns: int
) -> dict[str, Any]:
    """Return the Lease as ``claim`` takes or renews it.

    A Lease that was ``found`` keeps its resourceVersion, so that the API server rejects the
    update if it changed meanwhile. A retry of the same run keeps the instant of its first claim.
    """
    lease: dict[str, Any] = copy.deepcopy(dict(found)) if found is not None else {}
    metadata = lease.setdefault("metadata", {"name": LEASE})
    before = lease_record(lease)
    spec = lease.get("spec") or {}
    now = _micro_time(now_ns)
    is_same_holder = before.holder == claim.holder
    is_same_run = is_same_holder and before.run_id == claim.run_id
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        RUN_ID_ANNOTATION: claim.run_id,
    }
    # As in client-go: from 0, plus one for each change of an existing Lease.
    transitions = (spec.get("leaseTransitions") or 0) + (found is not None and not is_same_holder)
    return {
        **lease,
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            **spec,
            "holderIdentity": claim.holder,
            "acquireTime": (is_same_run and spec.get("acquireTime")) or now,
            "renewTime": now,
            "leaseDurationSeconds": claim.duration_seconds,
            "leaseTransitions": transitions,
        },
    }


def held_message(found: LeaseRecord, namespace: str) -> str:
    """Return the namespace's holder, its start, its latest end, and how to free it, in words."""
    run = "" if found.run_id is None else f" (run {found.run_id})"
    since, until = "since an unknown time", "without an end"
    if found.acquired_at_ns is not None:
        since = f"since {format_instant(found.acquired_at_ns)}"
    if found.until_ns is not None:
        until = f"until {format_instant(found.until_ns)} at the latest"
    return (
        f"another Airflow rehearses in namespace {namespace}: {found.holder}{run}, {since}, "
        f"{until} (the API server's clock). Wait for its end, or name another namespace and "
        "another Kafka in the target's settings, because a run deletes all topics lagbench.* of "
        f"its Kafka; if it is dead: kubectl -n {namespace} delete lease {LEASE}"
    )


def longest_run_seconds(scenario: Scenario) -> int:
    """Return the longest that a run of the scenario can take, from its sweep to its teardown."""
    load = 2 * offered_load(scenario.profile).duration_seconds
    timeouts = scenario.timeouts
    waits = 2 * timeouts.drain_seconds + timeouts.settle_seconds
    waits += actions_seconds(scenario.actions, timeouts.drain_seconds)
    accounting = time_limit_seconds(_most_messages(scenario)) - time_limit_seconds(0)
    return math.ceil(TRIES * (load + waits + accounting)) + AROUND_THE_LOAD_SECONDS


def _most_messages(scenario: Scenario) -> int:
    """Return a bound of the run's messages: the load, and a tail at its highest rate."""
    load = offered_load(scenario.profile)
    timeouts = scenario.timeouts
    tail_seconds = timeouts.drain_seconds + timeouts.settle_seconds + TAIL_MARGIN_SECONDS
    highest = max(part.rate_per_second for part in load.segments)
    return load.total + math.ceil(highest * tail_seconds)


def _micro_time(at_ns: int) -> str:
    """Return an instant as metav1.MicroTime writes it: always six digits."""
    moment = datetime.fromtimestamp(at_ns // NS_PER_SECOND, UTC)
    micros = at_ns % NS_PER_SECOND // 1000
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{micros:06d}Z"
