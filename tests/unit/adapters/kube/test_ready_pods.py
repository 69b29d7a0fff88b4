"""Whether a namespace admits the pods of a user's Deployment, before a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import kubernetes.client
import pytest
from kubernetes.client import ApiClient, Configuration
from tests.fakes.fake_kube import FakeKube

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.workloads import last_words, logs_of_pod, require_admitted
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


REJECTED = WrongInput(where="Deployment/x", field="manifest", value="bad", allowed="good")


@pytest.mark.parametrize(
    ("answer", "field", "value", "allowed"),
    [
        # The level, and what the API server says to change.
        ((WARNING,), "spec.template", "restricted:latest", "runAsNonRoot"),
        # The trial has a name of its own, which the user has never seen.
        (REJECTED, "manifest", "bad", "good"),
    ],
)
def test_pods_that_the_namespace_rejects_are_refused(
    kube: AnsweringKube, answer: tuple[str, ...] | WrongInput, field: str, value: str, allowed: str
) -> None:
    """The message has the user's file."""
    kube.answer = answer

    with pytest.raises(WrongInput) as refused:
        require(kube)

    error = refused.value
    assert (error.where, error.field) == ("orders.yaml", field)
    assert value in str(error.value)
    assert allowed in error.allowed


def test_an_admitted_workload_leaves_nothing(kube: AnsweringKube) -> None:
    """Nothing is stored, and an object that a crashed run has left is not asked about."""
    before = dict(kube.objects)

    require(kube)

    assert kube.objects == before
    assert kube.tried["metadata"]["name"] == "consumer-trial"
    assert WORKLOAD["metadata"] == {"name": "consumer"}


def pod(*containers: str) -> dict[str, Any]:
    """Return a pod of these containers."""
    spec = {"containers": [{"name": name} for name in containers]}
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def holding(found: dict[str, Any], **logs: str) -> Any:
    """Return an API server with a pod and the logs of its containers."""
    kube = FakeKube()
    kube.objects["Pod", "p"] = found
    kube.logs = {name.replace("_", "."): text for name, text in logs.items()}
    return kube


def test_each_container_has_a_log_and_one_without_is_left_out() -> None:
    """Of a single one its name is the pod's; one that waits for its image hides no other one."""
    kube = holding(pod("main"), p="failed")
    assert logs_of_pod(kube, pod("main")) == {"p": "failed"}
    assert last_words(kube, pod("main")) == "; its log ends: failed"

    found = pod("main", "proxy", "waiting")
    kube = holding(found, p_main="x" * 999 + "failed", p_proxy="up")
    assert logs_of_pod(kube, found).keys() == {"p.main", "p.proxy"}
    assert last_words(kube, found) == (
        f"; the log p.main ends: {'x' * 994}failed; the log p.proxy ends: up"
    )


def test_the_api_server_is_asked_for_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """It rejects a request that names none of a pod's several containers."""
    asked: list[tuple[Any, ...]] = []

    class Core:
        def __init__(self, _client: ApiClient) -> None:
            pass

        def read_namespaced_pod_log(self, name: str, namespace: str, **options: Any) -> Any:
            asked.append((name, namespace, options["container"]))
            return SimpleNamespace(data=b"said")

    monkeypatch.setattr(kubernetes.client, "CoreV1Api", Core)
    kube = Kube(ApiClient(Configuration()), namespace="n")

    assert (kube.pod_logs("p", "main"), kube.pod_logs("p")) == ("said", "said")
    assert asked == [("p", "n", "main"), ("p", "n", None)]
