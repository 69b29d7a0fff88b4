"""Debian's prometheus, which the embedded bench runs for policies that ask one."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

from lagbench.core.cluster.policy_manifest import asks_prometheus
from lagbench.errors import NotReady

PROGRAM = "prometheus"


def require_prometheus(policy: Mapping[str, Any], *, where: str) -> None:
    """Reject a policy with a prometheus trigger where the program is not installed.

    :raises NotReady: it is not; the message names the package.
    """
    if asks_prometheus(policy) and shutil.which(PROGRAM) is None:
        raise NotReady(
            f"policy {where} has a prometheus trigger, and the embedded bench finds no program "
            f"{PROGRAM} to answer it: apt-get install --no-install-recommends {PROGRAM}, or use a "
            "cluster (--target)"
        )
