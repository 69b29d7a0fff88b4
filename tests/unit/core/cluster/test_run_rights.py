"""What a run asks for before it starts, against the Roles that are committed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from lagbench.catalog.catalog import load_policy
from lagbench.core.cluster.run_rights import CLAIM_RIGHT, RUN_RIGHTS, SECRET_RIGHT, rights_of_run
from lagbench.core.cluster.settings import ClusterSettings
from lagbench.project import PROJECT_ROOT

BASE = PROJECT_ROOT / "k8s" / "base"


def granted(path: str) -> set[tuple[str, str, str]]:
    """Return group, resource (with its part) and verb of each right of the file's only Role."""
    objects: list[dict[str, Any]] = list(yaml.safe_load_all((BASE / path).read_text()))
    (role,) = [item for item in objects if item["kind"] == "Role"]
    return {
        (group, resource, verb)
        for rule in role["rules"]
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


def test_the_runner_may_do_what_a_run_asks_for() -> None:
    """The committed Role of the account ``runner`` grants every right that is checked."""
    assert asked() - granted("runner/rbac.yaml") == set()


def test_the_check_covers_what_the_recorder_is_granted() -> None:
    """RBAC rejects a Role that grants more than its author has: a run must ask for it before."""
    assert granted("recorder/rbac.yaml") - asked() == set()


def test_the_runner_may_do_nothing_else_in_its_namespace() -> None:
    """Beyond what a run asks for, it may look at its namespace."""
    unasked = granted("runner/rbac.yaml") - asked()

    assert unasked == {("", "namespaces", "get")}


def test_the_runner_may_not_lift_the_profile_of_its_namespace() -> None:
    """It reads the namespace and changes nothing of it; a Role reaches no other namespace."""
    rights = granted("runner/rbac.yaml")

    assert {verb for _, resource, verb in rights if resource == "namespaces"} == {"get"}


@pytest.mark.parametrize(
    ("policy", "storage_class", "is_asked"),
    [
        ("persistent-lag", None, True),
        ("persistent-lag", "fast", True),
        ("persistent-lag", "none", False),
        ("lag-default", None, False),
        (None, None, False),
    ],
)
def test_the_lag_scaler_needs_a_claim(
    policy: str | None, storage_class: str | None, is_asked: bool
) -> None:
    """Claims for storage are asked about where a run makes one: the others need no such right."""
    cluster = ClusterSettings(storage_class=storage_class)

    rights = rights_of_run(cluster, [] if policy is None else [load_policy(policy).manifest])

    assert (CLAIM_RIGHT in rights) is is_asked
    assert SECRET_RIGHT not in rights
    assert set(RUN_RIGHTS) <= set(rights)


@pytest.mark.parametrize(("storage_class", "is_asked"), [(None, True), ("none", False)])
def test_a_consumer_on_spark_needs_a_claim(storage_class: str | None, *, is_asked: bool) -> None:
    """Its checkpoint outlives the driver's pod, where the cluster stores anything; and a Secret."""
    rights = rights_of_run(ClusterSettings(storage_class=storage_class), [], {"spark"})

    assert (CLAIM_RIGHT in rights) is is_asked
    assert SECRET_RIGHT in rights
