"""``lagbench policy check --target``: with what is in the cluster it says what the webhook says.

The command runs as a team runs it, with the rights of the account ``runner`` in its namespace.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from lagbench.cli.policy_command import CANNOT_RUN
from lagbench.core.scenario.run_names import CONSUMER_DEPLOYMENT, NAMESPACE
from lagbench.errors import ExitCode
from tests.cluster.cluster_rehearsal import CONTEXT, kubectl, stand_up
from tests.cluster.lagging_group import CRON, idle_consumers, scaled_object
from tests.cluster.live_admission import LiveApi
from tests.cluster.rig.rig import Rig
from tests.eventually import eventually

_LIMIT_SECONDS = 180


@dataclass(frozen=True)
class Checker:
    """The command, beside the API server that it reads."""

    api: LiveApi
    folder: Path
    kubeconfig: Path

    def check(self, manifest: dict[str, Any]) -> tuple[int, dict[str, Any], str]:
        """Return exit code, JSON and error text of a check."""
        path = self.folder / "policy.yaml"
        path.write_text(yaml.safe_dump(manifest))
        program = [str(Path(sys.executable).parent / "lagbench"), "policy", "check", str(path)]
        target = ["--target", f"context:{CONTEXT}"]
        settings = ["--target-settings", str(self.folder / "settings.env")]
        done = subprocess.run(
            [*program, *target, *settings, "--json"],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            check=False,
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
        )
        answer = json.loads(done.stdout) if done.stdout else {}
        return done.returncode, answer, " ".join(done.stderr.split())

    def live(self, manifest: dict[str, Any]) -> tuple[int, str]:
        """Return the code and the text of the real answer, of which nothing stays."""
        answer = self.api.send(manifest, NAMESPACE, is_dry_run=True)
        return answer.code, answer.message or ""


@pytest.fixture(scope="module")
def checker(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checker]:
    """Provide the namespace with a Deployment that a ScaledObject has; both go afterwards."""
    folder, api = tmp_path_factory.mktemp("policy-check"), LiveApi(rig.kubeconfig)
    kubeconfig = stand_up(rig, folder, "kafka:9092")  # which nobody asks
    for manifest in (idle_consumers(NAMESPACE, 0), policy("first")):
        answer = api.send(manifest, NAMESPACE)
        assert answer.is_accepted, answer.message
    found = Checker(api, folder, kubeconfig)
    eventually(lambda: api.get("HorizontalPodAutoscaler", NAMESPACE, "keda-hpa-first"), "its HPA")
    eventually(lambda: found.live(policy("second"))[0] == 403, "the webhook to see the first")
    yield found
    kubectl(rig, "-n", NAMESPACE, "delete", "scaledobject", "first")
    kubectl(rig, "-n", NAMESPACE, "delete", "deployment", CONSUMER_DEPLOYMENT)


def policy(name: str, *, target: str = CONSUMER_DEPLOYMENT, **spec: Any) -> dict[str, Any]:
    """Return a ScaledObject."""
    return scaled_object(NAMESPACE, name, **{"scaleTargetRef": {"name": target}, **spec})


def test_a_second_scaled_object_on_one_target_is_refused(checker: Checker) -> None:
    """The check gives the webhook's reason, and names the first among what it has read."""
    code, printed, _ = checker.check(policy("second"))
    live_code, live = checker.live(policy("second"))

    (found,) = printed["policies"]
    reasons = [item["happens"] for item in found["findings"]]
    assert (code, found["refused_by"]) == (ExitCode.WRONG_INPUT, "webhook")
    assert live_code == 403
    # KEDA ranges over a map of its checks: now this one fails first, now that one.
    owners = ("ScaledObject 'first'", "hpa 'keda-hpa-first'")
    assert any(f"already managed by the {owner}" in live for owner in owners)
    assert any(live.endswith(reason) for reason in reasons)
    assert "first" in printed["cluster"]["scaled_objects"]  # beside what other tests have there
    assert "keda-hpa-first" in printed["cluster"]["horizontal_pod_autoscalers"]
    assert printed["cluster"]["objects"] == {f"Deployment {CONSUMER_DEPLOYMENT}": True}


def test_an_update_and_another_target_are_stored(checker: Checker) -> None:
    """An update is in nobody's way; for a target that is not there it cannot run: exit code 1."""
    update, other = policy("first", maxReplicaCount=5), policy("second", target="elsewhere")

    update_code, _, _ = checker.check(update)
    code, printed, _ = checker.check(other)
    live_code, _ = checker.live(other)

    assert (update_code, code, live_code) == (ExitCode.PASS, CANNOT_RUN, 201)
    assert printed["cluster"]["objects"] == {"Deployment elsewhere": False}
    assert not printed["policies"][0]["can_run"]


def test_a_kind_that_no_operator_serves_is_refused(checker: Checker) -> None:
    """Without the cluster it is taken to be there."""
    rollout = {"name": "w", "kind": "Rollout", "apiVersion": "argoproj.io/v1alpha1"}
    wanted = policy("second", scaleTargetRef=rollout)

    code, printed, _ = checker.check(wanted)
    live_code, live = checker.live(wanted)

    (finding,) = printed["policies"][0]["findings"]
    assert (code, live_code) == (ExitCode.WRONG_INPUT, 403)
    assert live.endswith(finding["happens"])
    assert printed["cluster"]["api_groups"] == {"argoproj.io": False}


def test_a_missing_right_is_named(checker: Checker) -> None:
    """The runner may not read log-ins: exit code 3 with verb and resource, no answer."""
    trigger = {**CRON, "authenticationRef": {"name": "login"}}

    code, printed, error = checker.check(policy("second", triggers=[trigger]))

    assert (code, printed) == (ExitCode.NOT_READY, {})
    assert f"in namespace {NAMESPACE}" in error
    assert "get on triggerauthentications.keda.sh" in error
