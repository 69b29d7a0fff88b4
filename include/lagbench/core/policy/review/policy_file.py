"""A file of several documents: the policies in it, and what each finds beside itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from lagbench.core.hpa.controller_flags import followed_version
from lagbench.core.keda.triggers.trigger_authentication import (
    ContainerVariables,
    decode_secret,
    target_variables,
)
from lagbench.core.policy.admission.webhook import Manifest, target_type
from lagbench.core.policy.policy import POLICY_VERSIONS, is_policy
from lagbench.core.policy.review.cluster_facts import (
    AUTHENTICATIONS,
    WORKLOADS,
    ClusterFacts,
    mapping,
    name_of,
)
from lagbench.core.policy.review.policy_review import PolicyReview, review_policy
from lagbench.core.policy.review.subject import KnownObjects, PolicyContext
from lagbench.errors import WrongInput

_NO_FACTS = ClusterFacts("", "default")


@dataclass(frozen=True, slots=True)
class FileReview:
    """The reviews of a file's policies, and its other documents, which only serve them."""

    policies: tuple[PolicyReview, ...]
    others: tuple[str, ...]


def policies_of(
    documents: Sequence[Any], *, where: str
) -> tuple[Sequence[Manifest], Sequence[Manifest]]:
    """Return the manifests of a file, and the policies among them.

    :raises WrongInput: a document is not a manifest, or none is a policy.
    """
    manifests = [_manifest(item, where, number) for number, item in enumerate(documents, start=1)]
    policies = [item for item in manifests if is_policy(item)]
    if not policies:
        found = ", ".join(title_of(item) for item in manifests) or "nothing"
        allowed = f"at least one {' or '.join(POLICY_VERSIONS)}"
        raise WrongInput(where=where, field="documents", value=found, allowed=allowed)
    return manifests, policies


def review_documents(
    documents: Sequence[Any],
    *,
    where: str,
    context: PolicyContext | None = None,
    workloads: Sequence[Manifest] = (),
    facts: ClusterFacts | None = None,
) -> FileReview:
    """Return the reviews of all policies, as if the file were applied from top to bottom.

    ``workloads`` are known from elsewhere, ``facts`` were read from a cluster; an object of the
    file with the same name takes their place.

    :raises WrongInput: a document is not a manifest, none is a policy, or one has another namespace
        than the facts.
    """
    manifests, policies = policies_of(documents, where=where)
    if facts is not None:
        _check_namespaces(policies, facts, where)
    reviews, applied = [], list[Manifest]()
    for policy in policies:
        around = _known_objects(policy, applied, manifests, workloads, facts)
        review = review_policy(policy, where=where, context=context, known_objects=around)
        reviews.append(review)
        if review.is_accepted:  # a refused one is in nobody's way
            applied.append(policy)
    others = [title_of(item) for item in manifests if item.get("kind") not in POLICY_VERSIONS]
    return FileReview(tuple(reviews), tuple(others))


def _check_namespaces(policies: Sequence[Manifest], facts: ClusterFacts, where: str) -> None:
    for policy in policies:
        namespace = _namespace(policy, facts.namespace)
        if namespace != facts.namespace:
            allowed = f"{facts.namespace}, the namespace of {facts.source}, or none (NAMESPACE "
            allowed += "in the file of --target-settings names another)"
            field = f"metadata.namespace of {title_of(policy)}"
            raise WrongInput(where=where, field=field, value=namespace, allowed=allowed)


def _known_objects(
    policy: Manifest,
    applied: Sequence[Manifest],
    manifests: Sequence[Manifest],
    elsewhere: Sequence[Manifest],
    facts: ClusterFacts | None,
) -> KnownObjects:
    read = facts or _NO_FACTS
    home = _namespace(policy, read.namespace)
    near = [item for item in manifests if _namespace(item, read.namespace) == home]
    own = [item for item in near if item.get("kind") in WORKLOADS]
    seen = read.view()
    known = (*own, *elsewhere, *seen.workloads)
    target = mapping(mapping(policy.get("spec")).get("scaleTargetRef"))
    kind, name = target_type(target)[1], str(target.get("name") or "")
    is_known = any((item.get("kind"), name_of(item)) == (kind, name) for item in known)
    before = [item for item in applied if _namespace(item, read.namespace) == home]
    cluster = replace(
        seen,
        scaled_objects=_over(seen.scaled_objects, before, "ScaledObject"),
        hpas=_over(seen.hpas, before, "HorizontalPodAutoscaler"),
        workloads=known,
        limit_ranges=_over(seen.limit_ranges, near, "LimitRange"),
    )
    logins = {
        (str(item.get("kind")), name_of(item))
        for item in manifests
        if item.get("kind") in AUTHENTICATIONS
    }
    asked = read.authentications
    return KnownObjects(
        cluster=cluster,
        environment=target_environment(policy, [*near, *seen.workloads]),
        authentications=frozenset(logins | {key for key, is_there in asked.items() if is_there}),
        lacks_target=facts is None and bool(own) and not is_known and kind in WORKLOADS,
        is_cluster_read=facts is not None,
        missing_authentications=frozenset(key for key, is_there in asked.items() if not is_there),
        kubernetes=None if read.kubernetes is None else followed_version(read.kubernetes),
    )


def _over(
    stored: Sequence[Manifest], manifests: Sequence[Manifest], kind: str
) -> tuple[Manifest, ...]:
    """Return the file's objects of a kind, and the stored ones that none of them replaces."""
    own = [item for item in manifests if item.get("kind") == kind]
    names = set(map(name_of, own))
    return (*own, *(item for item in stored if name_of(item) not in names))


def _manifest(document: Any, where: str, number: int) -> Manifest:
    if isinstance(document, Mapping) and isinstance(document.get("kind"), str):
        return document
    is_scenario = isinstance(document, Mapping) and "profile" in document
    what = "this is a scenario, not a policy: --scenario FILE, or lagbench plan FILE, takes it"
    raise WrongInput(
        where=where,
        field=f"document {number}",
        value=type(document).__name__,
        allowed="a manifest with apiVersion and kind",
        sentence=what if is_scenario else None,
    )


def title_of(manifest: Manifest) -> str:
    """Return the kind and the name of an object."""
    return f"{manifest.get('kind')} {name_of(manifest)}".strip()


def _namespace(manifest: Manifest, default: str) -> str:
    return str(mapping(manifest.get("metadata")).get("namespace") or default)


def target_environment(policy: Manifest, objects: Sequence[Any]) -> ContainerVariables:
    """Return the variables of the container that KEDA reads: the named one, else the first.

    A target, a ConfigMap or a Secret that is not among the objects is not known.
    """
    home = _field(policy, "metadata", "namespace")
    near = [
        item
        for item in objects
        if isinstance(item, Mapping)
        and (home is None or _field(item, "metadata", "namespace") in (home, None))
    ]
    target = _field(policy, "spec", "scaleTargetRef")
    target = target if isinstance(target, Mapping) else {}

    def found(kind: str, name: str) -> Manifest | None:
        for item in near:
            if (item.get("kind"), _field(item, "metadata", "name")) == (kind, name):
                return item
        return None

    def values_of(kind: Literal["ConfigMap", "Secret"], name: str) -> Mapping[str, str] | None:
        given = found(kind, name)
        if given is None:
            return None
        try:
            values = decode_secret(given, where=name) if kind == "Secret" else given.get("data")
        except (WrongInput, AttributeError):
            return None
        return values if isinstance(values, Mapping) else {}

    workload = found(target_type(target)[1], str(target.get("name") or ""))
    variables = target_variables(workload, target.get("envSourceContainerName"), values_of)
    return variables.get("", ContainerVariables())


def _field(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
