"""Who may send messages to the accounting's Spark."""

from __future__ import annotations

import pytest

from lagbench.shared_with_spark.spark_authentication import AUTHENTICATED
from lagbench_spark.session import authentication

GIVEN = {"_SPARK_AUTH_SECRET": "of-the-cluster"}


@pytest.mark.parametrize(
    ("master", "environment", "settings"),
    [
        ("local[2]", {}, AUTHENTICATED),
        ("k8s://https://10.0.0.1:443", {}, AUTHENTICATED),
        ("spark://m:7077", GIVEN, {**AUTHENTICATED, "spark.authenticate.secret": "of-the-cluster"}),
        # Its master may take drivers without one, and these have nothing to show it.
        ("spark://m:7077", {}, {}),
    ],
)
def test_only_a_cluster_of_others_goes_without_a_secret(
    master: str, environment: dict[str, str], settings: dict[str, str]
) -> None:
    """In one process and on Kubernetes Spark draws it; a standalone cluster's is given."""
    assert authentication(master, environment) == settings
