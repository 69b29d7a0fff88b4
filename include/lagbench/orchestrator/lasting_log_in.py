"""Reject a log-in to a cluster that ends before a run does."""

from __future__ import annotations

import time

from lagbench.adapters.kube.client.kube_connection import written_token
from lagbench.core.kubernetes import NS_PER_SECOND, format_instant, token_end_seconds
from lagbench.errors import NotReady


def require_lasting_log_in(
    kubeconfig: str | None, context: str | None, *, target: str, advice: str, for_seconds: float
) -> None:
    """Reject a token in the kubeconfig that ends within ``for_seconds``.

    :param target: the cluster's name, for the message.
    :param advice: ends the error text about a kubeconfig that cannot be used.
    :raises NotReady: the token ends too early, or has ended.
    """
    token = written_token(kubeconfig, context, advice=advice)
    end = None if token is None else token_end_seconds(token)
    now = time.time()
    if end is None or end > now + for_seconds:
        return
    at = format_instant(round(end) * NS_PER_SECOND)
    why = f"ends at {at}, and a run may take {for_seconds / 60:.0f} minutes from now"
    raise NotReady(
        f"the token of {target} {why if end > now else f'ended at {at}'}. Write a new kubeconfig: "
        "k8s/runner-kubeconfig.sh (LAGBENCH_TOKEN_DURATION), or log in again"
    )
