"""Put a scaling policy into force in any Dag, and take it back."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from lagbench.adapters.kube.workloads import policy_in_force, put_policy
from lagbench.core.cluster.policy_manifest import policy_in_place_of
from lagbench.core.object_meta import without_export
from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.run_names import RUN_ID_ANNOTATION
from lagbench.errors import NotReady
from lagbench_airflow.hooks import kube as hook
from lagbench_airflow.task_life import require, wrong_input_is_final

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lagbench.adapters.kube.kube import Kube, Manifest

BEFORE = "before"
"""XCom of the task, written before its change: the policy that it replaces, null for none."""


class ApplyScalingPolicyOperator(BaseOperator):
    """Put a policy into force, or take back what an earlier task has put into force.

    After success: the object matches the policy (server-side apply; no field of the one before is
    left), and with ``wait`` the autoscaler has taken it up. The result and the log have the
    difference. How it scales is the policy's; what it scales, and the Kafka, topic and group that
    it reads, stay those of the object that was there. On failure the policy may be in force: take
    it back in a teardown without setups, because that of a failed setup does not run. A retry is
    safe: it still knows what was there before the first try.

    A policy that was there and cannot be read is not replaced, because it could not be taken back.

    :param policy: a file, or a name of the catalog (templated, as all but ``wait``).
    :param undo: id of a task of this operator, instead of ``policy``: its change is taken back,
        and an object that it has created is deleted. The task is skipped if there was no change.
        In a mapped group it takes back its own index; outside of it the first of a mapped task.
    :param scaled_object: name of the ScaledObject or HPA in the cluster.
    :param wait: return when the autoscaler has taken the policy up, after 120 s fail.
    :param namespace: None: the namespace of the connection.
    """

    template_fields: Sequence[str] = (
        *("policy", "scaled_object", "undo", "namespace", "kubernetes_conn_id"),
    )

    def __init__(
        self,
        *,
        scaled_object: str,
        policy: str | None = None,
        undo: str | None = None,
        wait: bool = True,
        namespace: str | None = None,
        kubernetes_conn_id: str = hook.DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        """Check the arguments; nothing is read before the task runs."""
        super().__init__(**{"doc_md": inspect.getdoc(type(self)), **kwargs})
        self.policy, self.undo, self.scaled_object = policy, undo, scaled_object
        self.wait, self.namespace, self.kubernetes_conn_id = wait, namespace, kubernetes_conn_id
        is_one = (policy is None) is not (undo is None)
        require(self.task_id, "policy", policy, "a policy, or instead of it undo", holds=is_one)

    def execute(self, context: Context) -> dict[str, Any]:
        """Swap the policy, or take the swap back."""
        conn_id, patience = self.kubernetes_conn_id, hook.PATIENCE_SECONDS
        with (
            wrong_input_is_final(),
            closing(hook.open_kube(conn_id, patience_seconds=patience)) as opened,
        ):
            kube = opened if self.namespace is None else opened.elsewhere(self.namespace)
            wanted = self._wanted(kube, context)
            if wanted is None:
                live = policy_in_force(kube, self.scaled_object)
                kind = None if live is None else live["kind"]
                is_deleted = live is not None and kube.delete(live["kind"], self.scaled_object)
                self.log.info("deleted %s/%s: %s", kind, self.scaled_object, is_deleted)
                return {"kind": None, "name": self.scaled_object, "diff": None}
            put = put_policy(kube, dict(wanted.manifest), wanted.limits, waits=self.wait)
        self.log.info("policy in force, old -> new:\n%s", put.difference or "(no change)")
        return {
            "kind": wanted.manifest["kind"],
            "name": self.scaled_object,
            "generation": put.generation,
            "hpa": put.hpa.get("name"),
            "diff": put.difference,
            "mark": _mark(wanted.manifest),
        }

    def _wanted(self, kube: Kube, context: Context) -> Policy | None:
        """Return the policy to put in force, None: none is; note the one that is in force now."""
        from lagbench.catalog.catalog import load_policy

        ti, name = context["ti"], self.scaled_object
        by = _mark_of_task(ti, self.task_id)
        if self.undo is not None:
            return _marked(self._noted(ti, self.undo, policy_in_force(kube, name)), by, where=name)
        policy = load_policy(str(self.policy))
        live, store = policy_in_force(kube, name), context["task_state_store"]
        is_repeated = live is not None and _is_of(live, f"{ti.dag_id}/{ti.run_id}/{self.task_id}")
        if not is_repeated or store.get(BEFORE) is None:
            if live is not None:
                Policy.read(live, where=f"{live['kind']}/{name} in the cluster")
            before = None if live is None else without_export(live)
            store.set(BEFORE, {"name": name, "policy": before})
        ti.xcom_push(key=BEFORE, value=store.get(BEFORE))
        manifest = policy_in_place_of(policy.manifest, live, name)
        return _marked(manifest, by, where=policy.where)

    def _noted(self, ti: Any, undo: str, live: Manifest | None) -> Manifest | None:
        """Return what was in force before a task, of a mapped one before its first instance.

        A task of a mapped group takes back the one of its own index.
        """
        index = {"map_indexes": ti.map_index} if ti.map_index >= 0 else {}
        found = ti.xcom_pull(task_ids=undo, key=BEFORE, **index)
        notes = [one for one in (found if isinstance(found, list) else [found]) if one]
        of_undone = _mark_of_task(ti, undo)
        for note in notes:
            before: Manifest | None = note["policy"]
            if note["name"] == self.scaled_object and not (before and _is_of(before, of_undone)):
                return before
        if live is not None and _is_of(live, of_undone):
            raise NotReady(f"{undo} has not noted what was in force before it")
        raise AirflowSkipException(f"{undo} has changed nothing on {self.scaled_object}")


def _mark_of_task(ti: Any, task_id: str) -> str:
    own = f"/{ti.map_index}" if ti.map_index >= 0 else ""
    return f"{ti.dag_id}/{ti.run_id}/{task_id}{own}"


def _is_of(manifest: Mapping[str, Any], task: str) -> bool:
    """Return whether the task, or an instance of it, has put the policy in force."""
    return f"{_mark(manifest)}/".startswith(f"{task}/")


def _mark(manifest: Mapping[str, Any]) -> str | None:
    mark: str | None = (manifest["metadata"].get("annotations") or {}).get(RUN_ID_ANNOTATION)
    return mark


def _marked(manifest: Manifest | None, by: str, *, where: str) -> Policy | None:
    """Return the policy with the task's mark, by which the autoscaler is seen to take it up."""
    if manifest is None:
        return None
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), RUN_ID_ANNOTATION: by}
    marked = {**manifest, "metadata": {**metadata, "annotations": annotations}}
    return Policy.read(marked, where=where)
