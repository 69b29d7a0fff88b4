"""Whose turn it is in a namespace, its settings, and the rights of a run."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from lagbench.catalog.catalog import load_policy
from lagbench.core.cluster.cluster_settings import ClusterSettings, cluster_settings
from lagbench.core.cluster.lease import (
    AROUND_THE_LOAD_SECONDS,
    TRIES,
    LeaseClaim,
    Standing,
    claimed_lease,
    lease_record,
    lease_standing,
    longest_run_seconds,
)
from lagbench.core.cluster.policy_manifest import (
    CLAIM_RIGHT,
    RUN_RIGHTS,
    SECRET_RIGHT,
    rights_of_run,
)
from lagbench.core.kubernetes_values import NS_PER_SECOND, parse_instant_ns
from lagbench.core.scenario.actions import KillPod, actions_seconds
from lagbench.core.scenario.consumer_kinds import KindName
from lagbench.core.scenario.scenario import Scenario
from lagbench.errors import WrongInput
from lagbench.project import PROJECT_ROOT

NOW = "2026-11-21T12:00:00Z"
NOW_NS = parse_instant_ns(NOW)
MINE, THEIRS = "here-1a2b3c4d", "there-5e6f7081"
CLAIM = LeaseClaim(MINE, "quick-spike-1", 3600)


def lease(**spec: Any) -> dict[str, Any]:
    """Return a Lease of ``THEIRS``, taken now, for an hour; ``None`` leaves a field out."""
    full = {
        "holderIdentity": THEIRS,
        "acquireTime": "2026-11-21T11:00:00.000000Z",
        "renewTime": "2026-11-21T12:00:00.000000Z",
        "leaseDurationSeconds": 3600,
        "leaseTransitions": 4,
        **spec,
    }
    return {
        "metadata": {
            "name": "lagbench",
            "uid": "u",
            "resourceVersion": "41",
            "annotations": {"lagbench.io/run-id": "standard-1"},
        },
        "spec": {key: value for key, value in full.items() if value is not None},
    }


@pytest.mark.parametrize(
    ("found", "after_seconds", "expected"),
    [
        (None, 0, Standing.FREE),
        (lease(holderIdentity=""), 0, Standing.FREE),
        (lease(holderIdentity=None), 0, Standing.FREE),
        ({"metadata": {"name": "lagbench"}}, 0, Standing.FREE),
        (lease(holderIdentity=MINE), 0, Standing.OWN),
        (lease(holderIdentity=MINE), 7200, Standing.OWN),  # expired, and nobody took it
        (lease(), 0, Standing.HELD),
        (lease(), 3600, Standing.HELD),
        (lease(), 3601, Standing.EXPIRED),
        (lease(), -600, Standing.HELD),  # renewed in the future: that clock was set back
        (lease(renewTime=None), 10**6, Standing.HELD),
        (lease(leaseDurationSeconds=None), 10**6, Standing.HELD),
        (lease(renewTime="2026-11-21T13:00:00.000000+01:00"), 3601, Standing.EXPIRED),
    ],
)
def test_the_standing_of_a_lease(
    found: dict[str, Any] | None, after_seconds: int, expected: Standing
) -> None:
    """Free, own, expired, held: by holder, renewTime and duration, and by one clock alone."""
    record = None if found is None else lease_record(found)

    assert lease_standing(record, MINE, NOW_NS + after_seconds * NS_PER_SECOND) is expected


def test_a_first_lease_says_all() -> None:
    """Holder, run, instants with six digits as metav1.MicroTime wants them, duration."""
    assert claimed_lease(None, CLAIM, NOW_NS) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "lagbench", "annotations": {"lagbench.io/run-id": "quick-spike-1"}},
        "spec": {
            "holderIdentity": MINE,
            "acquireTime": "2026-11-21T12:00:00.000000Z",
            "renewTime": "2026-11-21T12:00:00.000000Z",
            "leaseDurationSeconds": 3600,
            "leaseTransitions": 0,
        },
    }


def test_taking_over_is_bound_to_what_was_seen() -> None:
    """Version and uid go along, the change of holder is counted, the input stays as it was."""
    found = lease()

    taken = claimed_lease(found, CLAIM, NOW_NS + 2 * 3600 * NS_PER_SECOND)

    assert (taken["metadata"]["uid"], taken["metadata"]["resourceVersion"]) == ("u", "41")
    assert taken["metadata"]["annotations"] == {"lagbench.io/run-id": "quick-spike-1"}
    assert taken["spec"]["leaseTransitions"] == 5
    assert taken["spec"]["acquireTime"] == "2026-11-21T14:00:00.000000Z"
    assert found == lease()


@pytest.mark.parametrize(
    ("run_id", "acquired_at"),
    [("standard-1", "2026-11-21T11:00:00.000000Z"), ("standard-2", "2026-11-21T12:10:00.000000Z")],
)
def test_renewing_ones_own(run_id: str, acquired_at: str) -> None:
    """The same run keeps the instant at which it took the Lease; a later run has its own."""
    now_ns = NOW_NS + 600 * NS_PER_SECOND

    taken = claimed_lease(lease(holderIdentity=MINE), LeaseClaim(MINE, run_id, 60), now_ns)

    assert taken["spec"]["acquireTime"] == acquired_at
    assert taken["spec"]["renewTime"] == "2026-11-21T12:10:00.000000Z"
    assert taken["spec"]["leaseTransitions"] == 4
    assert lease_record(taken).until_ns == now_ns + 60 * NS_PER_SECOND


def calm(rate: float, seconds: float) -> Scenario:
    """Return a scenario with steady load, a wait of 100 s for the drain and of 50 s to settle."""
    profile = {"kind": "steady", "rate_per_second": rate, "duration_seconds": seconds}
    return Scenario.model_validate(
        {
            "name": "calm",
            "description": "steady",
            "partitions": 1,
            "profile": profile,
            "policy": "lag-default",
            "timeouts": {"drain_seconds": 100, "settle_seconds": 50},
        }
    )


def test_the_longest_run() -> None:
    """Two waits of the load's length, two for the drain, one for settling, and what is around.

    Each wait is tried three times at most, and waits again each time. Each million messages, with
    those of the longest tail, adds three tries of two minutes, and the wait for actions three.
    """
    # 91 messages, and at most 270 in a tail: three tries of 0.12 ms each for the accounting
    assert longest_run_seconds(calm(1, 90.5)) == 1294 + AROUND_THE_LOAD_SECONDS
    slow, quick = (longest_run_seconds(calm(rate, 130)) for rate in (2_500, 5_000))
    assert quick - slow == 3 * 120
    scenario, actions = calm(1, 90.5), (KillPod(kind="kill_pod", at="lag_drained"),)
    acting = longest_run_seconds(scenario.model_copy(update={"actions": actions}))
    assert acting - longest_run_seconds(scenario) == TRIES * actions_seconds(actions, 100)


WHERE = "kubernetes_default"


def test_what_is_left_out_is_as_committed() -> None:
    """Fields of the provider are nobody's settings, and empty is as good as absent."""
    given = {"kube_config_path": "/k", "cluster_context": "c", "lagbench_image": "  "}

    assert cluster_settings(given, where=WHERE) == ClusterSettings()


def test_every_setting_is_taken() -> None:
    """Namespace, servers, images, storage class, replicas and aliases come from their fields."""
    given = {
        "namespace": "spikes",
        "lagbench_bootstrap_servers": "kafka-0:9092,[::1]:9093",
        "lagbench_image": "registry.example.com:5000/programs@sha256:abc",
        "lagbench_storage_class": "gp3",
        "lagbench_replication_factor": 3,
        "lagbench_metric_aliases": "on",
        "lagbench_spark_image": "registry.example.com:5000/spark:1",
        "lagbench_image_pull_secret": "registry.login",
    }

    found = cluster_settings(given, where=WHERE)

    assert found == ClusterSettings(
        "spikes",
        "kafka-0:9092,[::1]:9093",
        "registry.example.com:5000/programs@sha256:abc",
        "gp3",
        3,
        metric_aliases=True,
        spark_image="registry.example.com:5000/spark:1",
        image_pull_secret="registry.login",  # noqa: S106 - a Secret's name
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("namespace", "Spikes"),
        ("namespace", "-a"),
        ("lagbench_bootstrap_servers", "kafka"),
        ("lagbench_bootstrap_servers", "kafka:0"),
        ("lagbench_bootstrap_servers", "kafka:9092,"),
        ("lagbench_image", "two words"),
        ("lagbench_spark_image", "two words"),
        ("lagbench_storage_class", "Fast SSD"),
        ("lagbench_image_pull_secret", "registry..login"),
        ("lagbench_image_pull_secret", "Login"),
        ("lagbench_image_pull_secret", "a" * 254),
        ("lagbench_replication_factor", "0"),
        ("lagbench_replication_factor", "all"),
        ("lagbench_metric_aliases", "yes"),
    ],
)
def test_a_wrong_value_is_named(field: str, value: str) -> None:
    """The error has the connection, the field and the value."""
    with pytest.raises(WrongInput) as refused:
        cluster_settings({field: value}, where=WHERE)

    assert (refused.value.where, refused.value.field, refused.value.value) == (WHERE, field, value)


BASE = PROJECT_ROOT / "k8s" / "base"


def granted(path: str) -> set[tuple[str, str, str]]:
    """Return group, resource (with its part) and verb of each right on any name that a file has."""
    objects: list[dict[str, Any]] = list(yaml.safe_load_all((BASE / path).read_text()))
    (role,) = [item for item in objects if item["kind"] == "Role"]
    return {
        (group, resource, verb)
        for rule in role["rules"]
        if not rule.get("resourceNames")
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked() -> set[tuple[str, str, str]]:
    """Return the same of what a run asks for."""
    return {
        (right.group, "/".join(filter(None, (right.resource, right.subresource))), verb)
        for right in (*RUN_RIGHTS, CLAIM_RIGHT, SECRET_RIGHT)
        for verb in right.verbs
    }


def test_the_runner_may_do_what_a_run_asks_for_and_no_more() -> None:
    """On every object of a kind, of a second group too; its namespace it can only look at."""
    runner = granted("runner/rbac.yaml")

    assert asked() - runner == set()
    assert runner - asked() == {("", "namespaces", "get")}


def test_the_check_covers_what_the_recorder_is_granted() -> None:
    """RBAC rejects a Role that grants more than its author has: a run must ask for it before."""
    assert granted("recorder/rbac.yaml") - asked() == set()


@pytest.mark.parametrize(
    ("policy", "kinds", "storage_class", "is_asked"),
    [
        ("persistent-lag", (), None, True),
        ("persistent-lag", (), "fast", True),
        ("persistent-lag", (), "none", False),
        ("lag-default", (), None, False),
        (None, (), None, False),
        (None, ("spark",), None, True),
        (None, ("spark",), "none", False),
    ],
)
def test_what_outlives_its_pod_needs_a_claim(
    policy: str | None, kinds: tuple[KindName, ...], storage_class: str | None, is_asked: bool
) -> None:
    """The lag scaler's windows and Spark's checkpoint, where anything is stored; Spark a Secret."""
    cluster = ClusterSettings(storage_class=storage_class)
    manifests = [] if policy is None else [load_policy(policy).manifest]

    rights = rights_of_run(cluster, manifests, kinds)

    assert (CLAIM_RIGHT in rights) is is_asked
    assert (SECRET_RIGHT in rights) is bool(kinds)
    assert set(RUN_RIGHTS) <= set(rights)
