"""What spark-submit takes for the pods of a k8s:// master."""

from __future__ import annotations

import yaml
from tests.unit.k8s.base_pods import K8S

from lagbench.core.spark.spark_submission import DEFAULT_SERVICE_ACCOUNT
from lagbench.embedded.spark_packages import POD_TEMPLATE


def test_the_template_meets_the_restricted_profile() -> None:
    """The image's user, default seccomp, no new privileges, no capabilities, /tmp to write."""
    pod = yaml.safe_load(POD_TEMPLATE.read_text(encoding="utf-8"))["spec"]

    security = pod["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    dockerfile = (K8S / "images" / "spark.Dockerfile").read_text(encoding="utf-8")
    assert f"USER {security['runAsUser']}:{security['fsGroup']}\n" in dockerfile
    (container,) = pod["containers"]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]  # noqa: S108
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_drivers_account_is_the_default_one() -> None:
    """What a submission names is what k8s/base/spark puts up."""
    rbac = (K8S / "base" / "spark" / "rbac.yaml").read_text(encoding="utf-8")

    accounts = [o for o in yaml.safe_load_all(rbac) if o["kind"] == "ServiceAccount"]

    assert [account["metadata"]["name"] for account in accounts] == [DEFAULT_SERVICE_ACCOUNT]
