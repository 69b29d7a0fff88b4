"""Whether a namespace admits the pods of a user's Deployment, before a run."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.fake_kube import FakeKube

from lagbench.adapters.kube.pod_admission import require_admitted
from lagbench.errors import WrongInput

WORKLOAD = {"kind": "Deployment", "metadata": {"name": "consumer"}, "spec": {"template": {}}}
ENFORCE = "pod-security.kubernetes.io/enforce"
WARNING = 'would violate PodSecurity "restricted:latest": runAsNonRoot != true (must be true)'


class AnsweringKube(FakeKube):
    """An API server that has its own mind about a trial."""

    answer: tuple[str, ...] | WrongInput = ()

    def try_apply(self, manifest: dict[str, Any]) -> tuple[str, ...]:
        """Warn or reject."""
        self.tried = manifest
        if isinstance(self.answer, WrongInput):
            raise self.answer
        return self.answer


@pytest.fixture
def kube() -> AnsweringKube:
    """Return a server whose namespace enforces the level restricted."""
    made = AnsweringKube()
    labels = {ENFORCE: "restricted"}
    made.objects["Namespace", made.namespace] = {"metadata": {"labels": labels}}
    return made


def require(kube: AnsweringKube) -> None:
    """Ask."""
    require_admitted(kube, WORKLOAD, where="orders.yaml")  # type: ignore[arg-type]


def test_pods_that_the_namespace_rejects_are_refused(kube: AnsweringKube) -> None:
    """The message has the user's file, the level, and what the API server says to change."""
    kube.answer = (WARNING,)

    with pytest.raises(WrongInput) as refused:
        require(kube)

    assert (refused.value.where, refused.value.field) == ("orders.yaml", "spec.template")
    assert "restricted:latest" in str(refused.value.value)
    assert "runAsNonRoot" in refused.value.allowed


def test_a_rejection_names_the_user_s_file(kube: AnsweringKube) -> None:
    """The trial has a name of its own, which the user has never seen."""
    kube.answer = WrongInput(where="Deployment/x", field="manifest", value="bad", allowed="good")

    with pytest.raises(WrongInput) as refused:
        require(kube)

    error = refused.value
    assert (error.where, error.field, error.value) == ("orders.yaml", "manifest", "bad")


def test_an_admitted_workload_leaves_nothing(kube: AnsweringKube) -> None:
    """Nothing is stored, and an object that a crashed run has left is not asked about."""
    before = dict(kube.objects)

    require(kube)

    assert kube.objects == before
    assert kube.tried["metadata"]["name"] == "consumer-trial"
    assert WORKLOAD["metadata"] == {"name": "consumer"}
