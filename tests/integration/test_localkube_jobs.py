"""Jobs on localkube: completions, retries, deadlines, their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.eventually import eventually
from tests.integration.localkube_process import LocalkubeProcess
from tests.integration.pod_manifests import FOREVER, NAMESPACE, job

pytestmark = pytest.mark.slow


@pytest.fixture
def kind(localkube: LocalkubeProcess) -> Callable[[str, str], Any]:
    """Provide the client's handles of kinds."""
    client = localkube.client()
    return lambda version, name: client.resources.get(api_version=version, kind=name)


def job_condition(kind: Callable[[str, str], Any], name: str) -> tuple[str, str] | None:
    """Return the type and reason of a finished job's condition."""
    status = kind("batch/v1", "Job").get(name=name, namespace=NAMESPACE).status
    for entry in status.conditions or ():
        if entry.status == "True":
            return entry.type, entry.reason
    return None


def test_a_job_runs_all_its_completions(kind: Callable[[str, str], Any]) -> None:
    """Three completions at parallelism two run three pods."""
    jobs = kind("batch/v1", "Job")
    jobs.create(body=job("three", "pass", completions=3, parallelism=2), namespace=NAMESPACE)

    outcome = eventually(lambda: job_condition(kind, "three"), "the end of the job")

    assert outcome == ("Complete", "CompletionsReached")
    assert jobs.get(name="three", namespace=NAMESPACE).status.succeeded == 3


def test_a_job_fails_at_its_backoff_limit(kind: Callable[[str, str], Any]) -> None:
    """A failing pod with backoffLimit 0 fails the job; its failure is counted."""
    jobs = kind("batch/v1", "Job")
    jobs.create(body=job("fails", "raise SystemExit(2)", backoffLimit=0), namespace=NAMESPACE)

    outcome = eventually(lambda: job_condition(kind, "fails"), "the end of the job")

    assert outcome == ("Failed", "BackoffLimitExceeded")
    assert jobs.get(name="fails", namespace=NAMESPACE).status.failed == 1


def test_a_job_that_takes_too_long_is_ended(kind: Callable[[str, str], Any]) -> None:
    """ActiveDeadlineSeconds ends the pods and fails the job."""
    body = job("slow", FOREVER, activeDeadlineSeconds=1)
    kind("batch/v1", "Job").create(body=body, namespace=NAMESPACE)

    outcome = eventually(lambda: job_condition(kind, "slow"), "the end of the job")

    assert outcome == ("Failed", "DeadlineExceeded")


def test_a_finished_job_goes_after_its_time_to_live(kind: Callable[[str, str], Any]) -> None:
    """TtlSecondsAfterFinished 0 deletes the job and its pods when it is complete."""
    jobs = kind("batch/v1", "Job")
    jobs.create(body=job("short", "pass", ttlSecondsAfterFinished=0), namespace=NAMESPACE)

    eventually(
        lambda: not jobs.get(namespace=NAMESPACE, field_selector="metadata.name=short").items,
        "the end of the job",
    )
