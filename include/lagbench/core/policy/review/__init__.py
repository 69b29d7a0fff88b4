"""Find effects of a policy that its text does not show, before it is applied."""

from lagbench.core.policy.review.cluster_facts import (
    ClusterFacts,
    scaled_objects_of,
    wanted_authentications,
    wanted_groups,
    wanted_workloads,
    wants_limit_ranges,
)
from lagbench.core.policy.review.finding import Finding, Level, PolicyContext
from lagbench.core.policy.review.policy_file import FileReview, review_documents
from lagbench.core.policy.review.review import PolicyReview, refusal_findings

__all__ = [
    "ClusterFacts",
    "FileReview",
    "Finding",
    "Level",
    "PolicyContext",
    "PolicyReview",
    "refusal_findings",
    "review_documents",
    "scaled_objects_of",
    "wanted_authentications",
    "wanted_groups",
    "wanted_workloads",
    "wants_limit_ranges",
]
