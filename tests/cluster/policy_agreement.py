"""Live answers to the manifests of ``policy_cases``, beside what ``lagbench policy check`` says.

A file is applied from top to bottom in a namespace of its own; the live API server with KEDA's
webhook is the oracle: no expected answer is written down anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lagbench.adapters.kube.cluster_check import read_cluster_facts
from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.kube_client import ApiDiscovery
from lagbench.catalog.strict_yaml import parse_yaml
from lagbench.core.policy.admission.api_server import Admission, FieldValidation, admit
from lagbench.core.policy.admission.webhook import ClusterView
from lagbench.core.policy.policy import POLICY_VERSIONS
from lagbench.core.policy.review.policy_file import review_documents
from lagbench.core.policy.review.policy_review import review_policy
from lagbench.core.policy.review.subject import KnownObjects
from tests.cluster.live_admission import LiveAnswer, LiveApi
from tests.eventually import eventually

CASES = Path(__file__).parent / "policy_cases"
_SEPARATOR = "---\n"
CREATED = 201
_STRICT_REFUSAL = "strict decoding error"


@dataclass(frozen=True, slots=True)
class Case:
    """One document: ``about`` is the comment above it."""

    subject: str
    number: int
    about: str
    manifest: Mapping[str, Any]

    @property
    def is_policy(self) -> bool:
        """Return whether it is asked about, or only there for others."""
        return self.manifest.get("kind") == "ScaledObject"

    def __str__(self) -> str:
        """Return a short name for a test."""
        metadata = self.manifest.get("metadata") or {}
        return f"{self.subject}-{self.number:02}-{metadata.get('name', 'unnamed')[:30]}"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Both answers to one request; ``is_reviewed_good`` is the result of the policy's review."""

    case: Case
    field_validation: FieldValidation
    live: LiveAnswer
    ours: Admission
    is_reviewed_good: bool

    @property
    def has_same_answer(self) -> bool:
        """Return whether both store it, or both reject it in the same place with the same code."""
        if self.live.is_accepted or self.ours.is_accepted:
            return self.live.is_accepted and self.ours.is_accepted
        # From Kubernetes 1.37 on the schema rejects a number beyond int32 (422), not the webhook.
        is_beyond = [found.instead for found in self.ours.refusals] == ["int32"]
        return self.live.code == self.ours.code or (is_beyond and self.live.code == 422)

    @property
    def has_same_warnings(self) -> bool:
        """Return whether the same warnings are given, in any order."""
        return sorted(self.live.warnings) == sorted(self.ours.warnings)


def read_cases(folder: Path = CASES) -> tuple[Case, ...]:
    """Return every document of every file."""
    return tuple(
        Case(
            path.stem,
            number,
            text.partition("\n")[0].removeprefix("#").strip(),
            parse_yaml(text, where=str(path)),
        )
        for path in sorted(folder.glob("*.yaml"))
        for number, text in enumerate(path.read_text().split(_SEPARATOR), start=1)
    )


def agreements(api: LiveApi, cases: Sequence[Case]) -> Iterator[Agreement]:
    """Yield the answers to all cases, those to unknown fields in both ways to validate."""
    subjects = list(dict.fromkeys(case.subject for case in cases))
    for subject in subjects:
        api.create_namespace(_namespace(subject))
    try:
        facts = [case for case in cases if not case.is_policy]
        give_facts(api, [(fact.manifest, _namespace(fact.subject)) for fact in facts])
        with ExitStack() as opened:
            kubes = {
                subject: Kube.from_kubeconfig(api.kubeconfig, namespace=_namespace(subject))
                for subject in subjects
            }
            for kube in kubes.values():
                opened.callback(kube.close)
            discovery = ApiDiscovery(kubes[subjects[0]].api_client)
            for case in cases:
                if not case.is_policy:
                    continue
                both = _Both(api, kubes[case.subject], discovery)
                found = both.ask(case, "Strict")
                yield found
                if found.live.message is not None and _STRICT_REFUSAL in found.live.message:
                    yield both.ask(case, "Warn")
    finally:
        for subject in subjects:
            api.delete_namespace(_namespace(subject))


@dataclass(frozen=True, slots=True)
class _Both:
    """The live API server, and the facts of one namespace as ``policy check`` reads them."""

    api: LiveApi
    kube: Kube
    discovery: ApiDiscovery

    def ask(self, case: Case, mode: FieldValidation) -> Agreement:
        """Return both answers."""
        namespace = self.kube.namespace
        live = self.api.send(case.manifest, namespace, field_validation=mode)
        if live.is_accepted:
            await_seen(self.api, live.body, namespace)
        # Read after the answer: what the webhook saw is in it, and the object itself is left out.
        own = live.body.get("metadata", {}).get("uid") if live.code == CREATED else None
        facts = read_cluster_facts(self.kube, self.discovery, [case.manifest], source="the rig")
        cluster = facts.view().without(own)
        ours = admit(case.manifest, cluster, field_validation=mode)
        return Agreement(case, mode, live, ours, _is_reviewed_good(case.manifest, cluster))


def _is_reviewed_good(manifest: Mapping[str, Any], cluster: ClusterView) -> bool:
    around = KnownObjects(cluster=cluster, is_cluster_read=True)
    return review_policy(manifest, where="case", known_objects=around).is_accepted


def answers_of_files() -> dict[str, bool]:
    """Return what ``lagbench policy check FILE`` says of each case, which asks no cluster."""
    cases = read_cases()
    found = {}
    for subject in dict.fromkeys(case.subject for case in cases):
        own = [case for case in cases if case.subject == subject]
        reviews = review_documents([case.manifest for case in own], where=subject).policies
        policies = [case for case in own if case.manifest["kind"] in POLICY_VERSIONS]
        found.update({str(c): r.is_accepted for c, r in zip(policies, reviews, strict=True)})
    return found


def give_facts(api: LiveApi, facts: Sequence[tuple[Mapping[str, Any], str]]) -> None:
    """Create what policies find in namespaces, and wait until the webhook has seen the last of it.

    It reads from caches that a watch per kind fills in order: once the markers are seen, all is.
    """
    for manifest, namespace in facts:
        answer = api.send(manifest, namespace)
        assert answer.is_accepted, f"{manifest['metadata']['name']}: {answer.message}"
    for marker in _markers():
        answer = api.send(marker, namespace)
        assert answer.is_accepted, answer.message
        probe = _scaled_object("probe", {"name": "marker", "kind": _target_kind(marker)}, "cpu")
        eventually(
            lambda probe=probe: _is_marker_seen(api.send(probe, namespace)),  # type: ignore[misc]
            f"the webhook to see the {marker['kind']}",
        )


def _is_marker_seen(answer: LiveAnswer) -> bool:
    message = answer.message or ""
    return "request defined" in message or "managed by the hpa" in message


def await_seen(api: LiveApi, stored: Mapping[str, Any], namespace: str) -> None:
    """Wait until the webhook's cache has a ScaledObject: it then rejects another on the target.

    One whose owner is not there may be gone before: the garbage collector deletes it.
    """
    name = stored["metadata"]["name"]
    probe = _scaled_object("probe", stored["spec"]["scaleTargetRef"], "kafka")
    eventually(
        lambda: (
            not api.send(probe, namespace, is_dry_run=True).is_accepted
            or not api.get("ScaledObject", namespace, name)
        ),
        f"the webhook to see {name}",
    )


def _markers() -> list[dict[str, Any]]:
    labels, metadata = {"app": "marker"}, {"name": "marker"}
    pod = {"containers": [{"name": "none", "image": "none"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    target = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "marker"}
    hpa = {"scaleTargetRef": target, "maxReplicas": 1}
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec},
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": metadata,
            "spec": hpa,
        },
    ]


def _target_kind(marker: Mapping[str, Any]) -> str:
    target = marker["spec"].get("scaleTargetRef")
    return str(target["kind"] if target else marker["kind"])


def _scaled_object(name: str, target: Mapping[str, Any], trigger: str) -> dict[str, Any]:
    version = {"CronJob": "batch/v1"}.get(target.get("kind", ""), "apps/v1")
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": version, **target},
            "minReplicaCount": 1,
            "triggers": [{"type": trigger, "metadata": {}}],
        },
    }


def _namespace(subject: str) -> str:
    return f"policy-{subject}"


def differences(rows: Sequence[Agreement]) -> Iterator[str]:
    """Yield both answers wherever they differ."""
    for row in rows:
        reviewed = row.is_reviewed_good == admit_strict(row)
        if row.has_same_answer and row.has_same_warnings and reviewed:
            continue
        yield f"{row.case} ({row.field_validation}): {row.case.about}"
        yield f"  live {row.live.code}: {row.live.message} {list(row.live.warnings)}"
        for text in row.ours.refusals or ("(stored)",):
            yield f"  ours {row.ours.code}: {text} {list(row.ours.warnings)}"
        yield f"  reviewed as {'good' if row.is_reviewed_good else 'refused'}"


def admit_strict(row: Agreement) -> bool:
    """Return what the review must say: it reads as kubectl sends, strictly."""
    return row.live.is_accepted and row.field_validation == "Strict"
