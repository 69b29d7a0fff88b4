"""Build the broker proxy of a run, and reject actions that need a broker of the bench's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lagbench.core.cluster.manifests import Manifest, RunTarget, deployment_for_run
from lagbench.core.scenario import ActionBase, ActionKind
from lagbench.errors import WrongInput

OF_OWN_BROKER: frozenset[ActionKind] = frozenset({"broker_restart", "broker_unreachable"})
"""Actions that only the embedded bench can play: no right of a cluster allows them."""


def require_own_broker(
    actions: Sequence[ActionBase], *, is_embedded: bool, has_own_broker: bool
) -> None:
    """Reject the first action that needs the embedded bench's own broker, where there is none.

    :raises WrongInput: names the action.
    """
    if is_embedded and has_own_broker:
        return
    place = "with a Kafka that is not the bench's own" if is_embedded else "on a cluster"
    for number, action in enumerate(actions):
        if action.kind in OF_OWN_BROKER:
            raise WrongInput(
                where="scenario",
                field=f"actions.{number}.kind",
                value=action.kind,
                allowed=f"kinds other than {', '.join(sorted(OF_OWN_BROKER))} {place}: "
                "these need the embedded broker",
            )


def broker_proxy_for_run(
    deployment: Mapping[str, Any], target: RunTarget, *, listen_port: int, upstream_port: int
) -> Manifest:
    """Return the proxy's Deployment between the broker's two ports of its second listener."""
    return deployment_for_run(
        deployment,
        target,
        arguments={"listen-port": str(listen_port), "upstream-port": str(upstream_port)},
    )
