"""The action on the policy: another one in its place, under load."""

from __future__ import annotations

from lagbench.adapters.kube.policy_swap import put_policy
from lagbench.core.policy.checked_policy import CheckedPolicy
from lagbench.core.scenario.actions import SwapPolicy
from lagbench.errors import NotReady
from lagbench.programs.actions.performer import Performer


class SwapPolicies(Performer[SwapPolicy]):
    """Puts the new policy into force; ends when the autoscaler has taken it up. It stays."""

    def choose(self) -> list[str]:
        """Name the new policy."""
        if self.number not in self.stage.options.policies:
            raise NotReady(f"the manifest of the policy {self.action.policy} is missing")
        return [self.action.policy]

    def act(self) -> None:
        """Apply it, and keep the difference from the one before."""
        manifest = self.stage.options.policies[self.number]
        policy = CheckedPolicy.of_run(manifest, where=self.action.policy)
        self.detail = put_policy(self.stage.kube, manifest, policy.limits).difference
