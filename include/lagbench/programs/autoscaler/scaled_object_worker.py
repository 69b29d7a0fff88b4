"""One ScaledObject: reconciled when it changes, polled on its own clock, its metrics served."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from lagbench.adapters.kube.followed_cluster import (
    HPA,
    SCALED_OBJECT,
    Cluster,
    ClusterError,
    Kind,
    Manifest,
    ObjectKey,
)
from lagbench.core.hpa.hpa_object import ScaleTarget, parse_hpa
from lagbench.core.hpa.hpa_sync import Condition
from lagbench.core.keda.loop.keda_hpa import SCALED_OBJECT_LABEL, build_hpa
from lagbench.core.keda.loop.keda_runtime import FALLBACK_UNKNOWN, NO_FALLBACK
from lagbench.core.keda.loop.scalers import MetricSpec, Scaler, ScalerFailed, ScalersNotBuilt
from lagbench.core.keda.loop.zero_and_minimum import READY
from lagbench.core.keda.object.scaled_object_spec import (
    ScaledObjectSpec,
    ScalingAnnotations,
    Trigger,
    parse_scaling_annotations,
)
from lagbench.core.policy.admission.api_server import stored_hpa
from lagbench.errors import LagbenchError, WrongInput
from lagbench.programs.autoscaler.live_object import LiveObject
from lagbench.programs.autoscaler.object_worker import Worker, WorkerContext, condition_of
from lagbench.programs.autoscaler.trigger_secrets import parse_resolved

log = logging.getLogger(__name__)

FINALIZER = "finalizer.keda.sh"
# KEDA's work queue retries a failed reconcile after 5, 10, 20 ... s, up to 1000 s; with a source
# that takes a second to fail these are the 5, 11, 21, 41, 83, 165 s that were recorded.
_FIRST_RETRY_SECONDS = 5.0
_LONGEST_RETRY_SECONDS = 1000.0
_NEVER_SECONDS = 3600.0
_CONFLICT = 409
_CHECK_FAILED = "ScaledObjectCheckFailed"
_UNKNOWN_YET = (Condition("Ready", "Unknown"), Condition("Active", "Unknown"), FALLBACK_UNKNOWN)
_NEVER_PAUSED = Condition("Paused", "False")
_PAUSED = Condition("Paused", "True", "ScaledObjectPaused", "ScaledObject is paused")
_UNPAUSED = Condition("Paused", "False", "ScaledObjectUnpaused", "the pause annotation was removed")
_READY_WHILE_PAUSED = Condition("Ready", "True", "ScaledObjectReady", "ScaledObject is paused")


class CheckFailed(LagbenchError):
    """The object cannot be scaled as the cluster is now."""


class ScaledObjectWorker(Worker):
    """Owns the HPA, the target's pause and the live state of one ScaledObject."""

    kind = SCALED_OBJECT

    def __init__(self, manifest: Manifest, context: WorkerContext) -> None:
        """Take the object up; nothing happens before ``start``."""
        super().__init__(manifest, context)
        self._taken: Manifest | None = None
        self._spec: ScaledObjectSpec | None = None
        self._live: LiveObject | None = None
        self._failures = 0
        self._retry_at: float | None = None
        self._poll_at: float | None = None

    def update(self, manifest: Manifest) -> bool:
        """Take a newer version of the object."""
        is_news = _desired(manifest) != _desired(self.latest)
        self.latest = manifest
        if is_news or _is_deleting(manifest):
            self.wake()
        return is_news

    def reconsider(self, kind: Kind, key: ObjectKey) -> None:
        """Reconcile soon where an object that was deleted or edited has to do with this one.

        The HPA is made again as it should be; a target may be free since its owner has left.
        """
        is_running = self._live is not None and self._live.is_running
        is_own_hpa = self._spec is not None and key == (self.key[0], self._spec.hpa_name)
        if (is_running and is_own_hpa) if kind == HPA else self._retry_at is not None:
            self._retry_at = self._now()
            self.wake()

    def step(self) -> float:
        """Reconcile when the object changed or a retry is due; poll when it is time."""
        manifest = self.latest
        if _is_deleting(manifest):
            self.stop()
            return 0.0
        is_changed = self._taken is None or _desired(manifest) != _desired(self._taken)
        if is_changed:
            self._failures = 0
        if is_changed or self._is_due(self._retry_at):
            self._reconcile(manifest)
        if self._live is not None and self._is_due(self._poll_at):
            self._live.poll()
            self._poll_at = self._now() + self._live.keda.spec.polling_interval_seconds
        due = [at - self._now() for at in (self._poll_at, self._retry_at) if at is not None]
        return min(due, default=_NEVER_SECONDS)

    def finish(self) -> None:
        """End the loop; when the object was deleted, remove its HPA and restore its target."""
        self._drop()
        cluster, spec = self.context.cluster, self._spec
        if not _is_deleting(self.latest) and self.key in self.context.objects[SCALED_OBJECT]:
            return
        try:
            if spec is not None:
                cluster.delete(HPA, (spec.namespace, spec.hpa_name))
            if self._is_anothers():
                log.info("%s: returned unchanged", self.name)
                return
            original = self.status.status.get("originalReplicaCount")
            if spec is not None and spec.restores_replicas and original is not None:
                cluster.set_replicas(spec.target, spec.namespace, original)
            finalizers = self.latest["metadata"].get("finalizers") or []
            if FINALIZER in finalizers:
                left = [item for item in finalizers if item != FINALIZER] or None
                cluster.patch(SCALED_OBJECT, self.key, {"metadata": {"finalizers": left}})
        except ClusterError as error:
            if not error.is_not_found:
                log.warning("%s: deletion not completed: %s", self.name, error)

    def _now(self) -> float:
        return self.context.clock.monotonic_seconds()

    def _is_due(self, at: float | None) -> bool:
        return at is not None and self._now() >= at

    def _is_anothers(self) -> bool:
        """Return whether the object stays, so that another controller has it from now on."""
        try:
            stored = self.context.cluster.get(SCALED_OBJECT, self.key)
        except ClusterError:
            return False
        return self.is_of(stored) and not _is_deleting(stored)

    def _reconcile(self, manifest: Manifest) -> None:
        previous, self._taken, self._retry_at = self._taken, manifest, None
        replaced = None  # it serves the HPA until the new one does: KEDA has no moment without
        if previous is not None and previous.get("spec") != manifest.get("spec"):
            replaced, self._live, self._poll_at = self._live, None, None
        annotations = parse_scaling_annotations(manifest)
        try:
            if not self.status.status.get("conditions"):
                self.status.write({}, [*_UNKNOWN_YET, _NEVER_PAUSED])
            self._report_pause(annotations)
            if annotations.is_paused:
                self._hold(manifest, annotations)
            else:
                self._take_up(manifest, annotations)
        except ScalerFailed as error:
            self._fail("KEDAScalerFailed", error)
        except (CheckFailed, WrongInput) as error:
            self._fail(_CHECK_FAILED, error)
        except ClusterError as error:
            log.warning("%s: reconcile failed: %s", self.name, error)
            self._retry_later()
        else:
            self._failures = 0
        finally:
            if replaced is not None:
                replaced.close()

    def _take_up(self, manifest: Manifest, annotations: ScalingAnnotations) -> None:
        cluster = self.context.cluster
        spec = parse_resolved(manifest, cluster)
        owner = self.context.other_owner(manifest, spec.target)
        if owner is not None:
            raise CheckFailed(owner)
        try:
            scale = cluster.get_scale(spec.target, spec.namespace)
        except ClusterError as error:
            if not error.is_not_found:
                raise
            raise CheckFailed(f"scaleTargetRef: {error}") from error
        self._mark(manifest, spec)
        if self._live is None:
            self._live = LiveObject(self, spec, self._build_scaler)
        with self._live.turn() as keda:
            keda.annotate(annotations)
            metrics = keda.metric_specs()
        # Before the HPA: Kubernetes 1.37 reads the metric as soon as a changed HPA is written.
        self.context.metrics[self.key] = self._live.read_metric_milli
        ensure_hpa(manifest, spec, metrics, cluster)
        self._spec = spec
        self._report_ready(spec, self._live, original_replicas=scale.spec_replicas)
        if not self._live.is_running:
            self._live.start(lambda: self.reconsider(HPA, (spec.namespace, spec.hpa_name)))
            self._poll_at = self._now()

    def _mark(self, manifest: Manifest, spec: ScaledObjectSpec) -> None:
        """Add KEDA's label, and its finalizer where deletion has something to restore.

        KEDA always adds the finalizer; here only an object with restoreToOriginalReplicaCount can
        be held back, so that a deletion never waits for an autoscaler that has ended.
        """
        metadata, change = manifest["metadata"], dict[str, Any]()
        if (metadata.get("labels") or {}).get(SCALED_OBJECT_LABEL) != spec.name:
            change["labels"] = {SCALED_OBJECT_LABEL: spec.name}
        finalizers = metadata.get("finalizers") or []
        if spec.restores_replicas and FINALIZER not in finalizers:
            change["finalizers"] = [*finalizers, FINALIZER]
        if change:
            self.context.cluster.patch(SCALED_OBJECT, self.key, {"metadata": change})

    def _build_scaler(self, trigger: Trigger) -> Scaler:
        """Build a scaler with the secrets as they are now: KEDA reads them at each building."""
        if trigger.authentication_ref is not None and self._taken is not None:
            try:
                spec = parse_resolved(self._taken, self.context.cluster)
            except WrongInput as error:
                raise ScalersNotBuilt(str(error)) from error
            trigger = spec.triggers[trigger.index]
        return self.context.sources.scaler(self.key, trigger)

    def _report_pause(self, annotations: ScalingAnnotations) -> None:
        """Report a change; KEDA calls an object paused also when only one direction is."""
        is_paused = (
            annotations.is_paused or annotations.scale_in_paused or annotations.scale_out_paused
        )
        if is_paused != (condition_of(self.status.status, "Paused").get("status") == "True"):
            self.status.write({}, [_PAUSED if is_paused else _UNPAUSED])

    def _hold(self, manifest: Manifest, annotations: ScalingAnnotations) -> None:
        """Remove the HPA and set the count that is asked for; the triggers are not looked at."""
        cluster, (namespace, name) = self.context.cluster, self.key
        self._drop()
        hpa_name = str(self.status.status.get("hpaName") or f"keda-hpa-{name}")
        cluster.delete(HPA, (namespace, hpa_name))
        if annotations.paused_replicas_problem:
            raise CheckFailed(annotations.paused_replicas_problem)
        given = (manifest.get("spec") or {}).get("scaleTargetRef") or {}
        if annotations.paused_replicas is not None and given.get("name"):
            target = ScaleTarget(
                api_version=given.get("apiVersion") or "apps/v1",
                kind=given.get("kind") or "Deployment",
                name=str(given["name"]),
            )
            if cluster.get_scale(target, namespace).spec_replicas != annotations.paused_replicas:
                cluster.set_replicas(target, namespace, annotations.paused_replicas)
        fields: dict[str, Any] = {"pausedReplicaCount": annotations.paused_replicas}
        self.status.write(fields, [_READY_WHILE_PAUSED])

    def _report_ready(
        self, spec: ScaledObjectSpec, live: LiveObject, *, original_replicas: int
    ) -> None:
        """Write Ready and what is known by then."""
        before, names = self.status.status, live.keda.external_metric_names
        fields: dict[str, Any] = {
            "externalMetricNames": list(names) or None,
            "hpaName": spec.hpa_name,
            "pausedReplicaCount": None,
        }
        if before.get("originalReplicaCount") is None:
            fields["originalReplicaCount"] = original_replicas
        if set(before.get("health") or {}) - set(names):
            self.status.write({"health": None}, [])  # the counters left are written with a poll
        self.status.write(fields, [READY, live.keda.fallback_condition])

    def _fail(self, reason: str, error: LagbenchError) -> None:
        """Report why the object cannot be taken up, and try again later."""
        log.warning("%s: %s", self.name, error)
        self.event("Warning", reason, str(error))
        failed = Condition("Ready", "False", _CHECK_FAILED, str(error))
        active = Condition("Active", "Unknown", "UnknownState", "ScaledObject check failed")
        try:
            self.status.write({}, [failed, active, NO_FALLBACK])
        except ClusterError as problem:
            log.warning("%s: status not written: %s", self.name, problem)
        self._retry_later()

    def _retry_later(self) -> None:
        if self._live is not None and not self._live.is_running:
            self._drop()  # scalers that were built for nothing; a loop that runs continues
        delay = min(_FIRST_RETRY_SECONDS * 2**self._failures, _LONGEST_RETRY_SECONDS)
        self._failures += 1
        self._retry_at = self._now() + delay

    def _drop(self) -> None:
        """End the live state of this generation."""
        live, self._live, self._poll_at = self._live, None, None
        if live is not None:
            live.close()


def ensure_hpa(
    manifest: Manifest, spec: ScaledObjectSpec, metrics: Sequence[MetricSpec], cluster: Cluster
) -> None:
    """Create the HPA, or change the existing one in place (its history then continues)."""
    wanted = stored_hpa(build_hpa(spec, manifest["metadata"], metrics))
    try:
        stored = cluster.get(HPA, (spec.namespace, spec.hpa_name))
    except ClusterError as error:
        if not error.is_not_found:
            raise
        try:
            cluster.create(wanted)
        except ClusterError as refused:
            if 400 <= refused.status < 500 and refused.status != _CONFLICT:
                raise CheckFailed(f"the HPA is refused: {refused}") from refused
            raise
        return
    before, after = stored["metadata"], wanted["metadata"]
    owners = {item.get("uid") for item in before.get("ownerReferences") or []}
    if after["ownerReferences"][0]["uid"] not in owners:
        raise CheckFailed(f"the hpa '{spec.hpa_name}' is not owned by this ScaledObject")
    kept = {"labels": after["labels"], "annotations": after["annotations"]}
    changed = {**stored, **{key: wanted[key] for key in ("apiVersion", "kind", "spec")}}
    changed["metadata"] = {**before, **kept}
    # What both mean is compared, so that defaults of the API server make no difference.
    is_same = {"annotations": {}, **before} | kept == {"annotations": {}, **before}
    if not is_same or parse_hpa(stored, where="stored") != parse_hpa(changed, where="new"):
        cluster.replace(changed)


def _desired(manifest: Manifest) -> tuple[Any, Any]:
    return manifest.get("spec"), manifest["metadata"].get("annotations")


def _is_deleting(manifest: Manifest) -> bool:
    return bool(manifest["metadata"].get("deletionTimestamp"))
