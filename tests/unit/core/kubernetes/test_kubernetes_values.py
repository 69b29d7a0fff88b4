"""Kubernetes quantities in thousandths."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from lagbench.core.kubernetes_values import (
    format_milli,
    metric_milli,
    parse_milli,
    token_end_seconds,
)
from lagbench.core.workload_state import (
    is_ready,
    is_rolled_out,
    ready_since,
    repeated_ends,
    wanted_replicas,
)
from lagbench.errors import WrongInput


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("10", 10000),
        ("250m", 250),
        ("1.5", 1500),
        ("1k", 1000000),
        ("1Ki", 1024000),
        ("100n", 1),
        ("2e3", 2000000),
        ("0", 0),
        ("1E", 10**21),
        (7, 7000),
    ],
)
def test_quantities_are_read(text: str, milli: int) -> None:
    """Decimal and binary suffixes and exponents are known; finer than a thousandth rounds up."""
    assert parse_milli(text, where="w", field="f") == milli


@pytest.mark.parametrize("text", ["", "ten", "1 0", "10x", "--1"])
def test_anything_else_is_refused(text: str) -> None:
    """A value that is no quantity names its field."""
    with pytest.raises(WrongInput, match="quantity"):
        parse_milli(text, where="w", field="f")


@pytest.mark.parametrize(
    ("milli", "text"), [(10_000, "10"), (10_500, "10500m"), (0, "0"), (1_000_000, "1k")]
)
def test_quantities_are_written_as_the_api_server_does(milli: int, text: str) -> None:
    """Whole numbers stay whole, others are thousandths."""
    assert format_milli(milli) == text


@pytest.mark.parametrize(
    ("value", "milli"), [(39.0, 39_000), (-4.0, 0), (float("nan"), 0), (float("inf"), 0)]
)
def test_metrics_below_zero_or_undefined_are_served_as_zero(value: float, milli: int) -> None:
    """KEDA's metrics API never serves a negative, infinite or undefined value."""
    assert metric_milli(value) == milli


def token_of(claims: object) -> str:
    """Return a JWT with these claims, unpadded as RFC 7515 says; nobody checks its signature."""
    parts = [json.dumps(part).encode() for part in ({"alg": "RS256"}, claims)]
    texts = [base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (*parts, b"signed")]
    return ".".join(texts)


@pytest.mark.parametrize("subject", ["a", "ab", "abc"])
def test_the_end_is_in_the_claims(subject: str) -> None:
    """It is read whatever padding the text lacks."""
    assert token_end_seconds(token_of({"sub": subject, "exp": 1_795_000_000})) == 1_795_000_000


@pytest.mark.parametrize(
    "token", ["secret", "a.b.c", "a.é.c", token_of({"sub": "a"}), token_of([1]), ""]
)
def test_a_token_without_an_end_has_none(token: str) -> None:
    """Tokens of a Secret, and those that are not a JWT, state none."""
    assert token_end_seconds(token) is None


SINCE = "2026-11-25T18:10:00Z"


@pytest.mark.parametrize(
    ("status", "since"),
    [
        ({"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": SINCE}]}, SINCE),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, None),
    ],
)
def test_a_ready_object_may_say_since_when(status: dict[str, Any], since: str | None) -> None:
    """Without an instant it is Ready all the same."""
    assert is_ready({"status": status})
    assert ready_since({"status": status}) == since


@pytest.mark.parametrize(
    "status",
    [
        None,
        {},
        {"conditions": None},
        {"conditions": [{"type": "Initialized", "status": "True", "lastTransitionTime": SINCE}]},
        {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": SINCE}]},
        {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": SINCE}]},
    ],
)
def test_an_object_without_a_ready_condition_that_holds_is_not_ready(status: Any) -> None:
    """Another condition, False, and Unknown do not count."""
    assert not is_ready({"status": status})
    assert ready_since({"status": status}) is None


ONE = {"name": "main"}

TERMINATED = {"terminated": {"exitCode": 2, "reason": "Error"}}

BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff"}}


@pytest.mark.parametrize(
    ("container", "is_final"),
    [
        ({"restartCount": 2, "state": TERMINATED}, False),
        ({"restartCount": 3, "state": BACK_OFF, "lastState": TERMINATED}, True),
        ({"restartCount": 3, "state": TERMINATED}, True),
        ({"restartCount": 3, "state": {"running": {}}, "lastState": TERMINATED}, True),
        ({"restartCount": 3, "ready": True, "lastState": TERMINATED}, False),
        ({"restartCount": 3, "state": BACK_OFF}, True),
        ({}, False),
    ],
)
def test_a_container_that_ends_again_and_again_is_told(
    container: dict[str, Any], is_final: bool
) -> None:
    """At its third end, with the exit code if the API server has one; not while it is Ready."""
    found = repeated_ends({"status": {"containerStatuses": [{"name": "app"}, container | ONE]}})

    assert (found is not None) is is_final
    if found and container.get("lastState"):
        assert found == "container main ended 3 times, last with exit code 2 (Error)"
    assert repeated_ends({}) is None


DONE = {"observedGeneration": 2, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 3}


def deployment(**status: Any) -> dict[str, Any]:
    """Return a Deployment that wants three replicas in its second generation."""
    return {
        "metadata": {"generation": 2},
        "spec": {"replicas": 3},
        "status": {**DONE, **status},
    }


def test_rolled_out_means_all_pods_new_and_available() -> None:
    """Every count equals the wanted one."""
    assert is_rolled_out(deployment()) is True


@pytest.mark.parametrize(
    "status",
    [
        {"updatedReplicas": 2},
        {"replicas": 4},
        {"availableReplicas": None},
        {"observedGeneration": 1},
    ],
)
def test_a_rollout_in_progress_is_not_rolled_out(status: dict[str, Any]) -> None:
    """An old pod, a surge pod, a pod that is not available, or a spec not yet seen."""
    assert is_rolled_out(deployment(**status)) is False


def test_replicas_that_are_not_stated_are_one() -> None:
    """That is the API server's default; zero is stated."""
    assert wanted_replicas({"spec": {}}) == 1
    assert wanted_replicas({"spec": {"replicas": 0}}) == 0
