"""A file of several documents: the policies in it, and what each finds beside itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lagbench.core.admission.cluster import ClusterView, Manifest, target_type
from lagbench.core.policy_check import POLICY_VERSIONS
from lagbench.core.policy_review.finding import PolicyContext, Surroundings
from lagbench.core.policy_review.review import PolicyReview, review_policy
from lagbench.errors import WrongInput

_WORKLOADS = ("Deployment", "StatefulSet")
_AUTHENTICATIONS = ("TriggerAuthentication", "ClusterTriggerAuthentication")


@dataclass(frozen=True, slots=True)
class FileReview:
    """The reviews of a file's policies, and its other documents, which only serve them."""

    policies: tuple[PolicyReview, ...]
    others: tuple[str, ...]


def review_documents(
    documents: Sequence[Any],
    *,
    where: str,
    context: PolicyContext | None = None,
    workloads: Sequence[Manifest] = (),
) -> FileReview:
    """Return the reviews of all policies, as if the file were applied from top to bottom.

    ``workloads`` are known from elsewhere; one of the file with the same name takes its place.

    :raises WrongInput: a document is no manifest, or none is a policy.
    """
    manifests = [_manifest(item, where, number) for number, item in enumerate(documents, start=1)]
    policies = [item for item in manifests if item.get("kind") in POLICY_VERSIONS]
    if not policies:
        found = ", ".join(_title(item) for item in manifests) or "nothing"
        allowed = f"at least one {' or '.join(POLICY_VERSIONS)}"
        raise WrongInput(where=where, field="documents", value=found, allowed=allowed)
    reviews, applied = [], list[Manifest]()
    for policy in policies:
        around = _surroundings(policy, applied, manifests, workloads)
        review = review_policy(policy, where=where, context=context, surroundings=around)
        reviews.append(review)
        if review.is_accepted:  # a refused one is in nobody's way
            applied.append(policy)
    others = [_title(item) for item in manifests if item.get("kind") not in POLICY_VERSIONS]
    return FileReview(tuple(reviews), tuple(others))


def _surroundings(
    policy: Manifest,
    applied: Sequence[Manifest],
    manifests: Sequence[Manifest],
    elsewhere: Sequence[Manifest],
) -> Surroundings:
    near = [item for item in manifests if _namespace(item) == _namespace(policy)]
    own = [item for item in near if item.get("kind") in _WORKLOADS]
    known = (*own, *elsewhere)
    target = _mapping(_mapping(policy.get("spec")).get("scaleTargetRef"))
    kind, name = target_type(target)[1], str(target.get("name") or "")
    is_known = any((item.get("kind"), _name(item)) == (kind, name) for item in known)
    before = [item for item in applied if _namespace(item) == _namespace(policy)]
    cluster = ClusterView(
        scaled_objects=tuple(item for item in before if item.get("kind") == "ScaledObject"),
        hpas=tuple(item for item in before if item.get("kind") == "HorizontalPodAutoscaler"),
        workloads=known,
        limit_ranges=tuple(item for item in near if item.get("kind") == "LimitRange"),
    )
    logins = {
        (str(item.get("kind")), _name(item))
        for item in manifests
        if item.get("kind") in _AUTHENTICATIONS
    }
    return Surroundings(
        cluster=cluster,
        environment=_environment(cluster.workload(kind, name), target),
        authentications=frozenset(logins),
        lacks_target=bool(own) and not is_known and kind in _WORKLOADS,
    )


def _environment(workload: Manifest | None, target: Mapping[str, Any]) -> dict[str, str]:
    """Return the plain variables of the container that KEDA reads: the named, else the first."""
    template = _mapping(_mapping((workload or {}).get("spec")).get("template"))
    containers = _mapping(template.get("spec")).get("containers") or []
    wanted = target.get("envSourceContainerName")
    for container in containers:
        if not wanted or container.get("name") == wanted:
            given = container.get("env") or []
            return {item["name"]: str(item["value"]) for item in given if item.get("value")}
    return {}


def _manifest(document: Any, where: str, number: int) -> Manifest:
    if isinstance(document, Mapping) and isinstance(document.get("kind"), str):
        return document
    raise WrongInput(
        where=where,
        field=f"document {number}",
        value=type(document).__name__,
        allowed="a manifest with apiVersion and kind",
    )


def _title(manifest: Manifest) -> str:
    return f"{manifest.get('kind')} {_name(manifest)}".strip()


def _name(manifest: Manifest) -> str:
    return str(_mapping(manifest.get("metadata")).get("name") or "")


def _namespace(manifest: Manifest) -> str:
    return str(_mapping(manifest.get("metadata")).get("namespace") or "default")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
