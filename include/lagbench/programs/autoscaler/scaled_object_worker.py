"""One ScaledObject: reconciled when it changes, polled on its own clock, its metrics served."""

from __future__ import annotations

import logging
from typing import Any

from lagbench.core.hpa_state import Condition
from lagbench.core.keda import READY
from lagbench.core.quantity import metric_milli
from lagbench.core.scaled_object import ScaledObjectSpec, Trigger
from lagbench.errors import NotReady, WrongInput
from lagbench.programs.autoscaler import reconcile
from lagbench.programs.autoscaler.bench import Bench
from lagbench.programs.autoscaler.cluster import (
    HPA,
    SCALED_OBJECT,
    ClusterError,
    Manifest,
    key_of,
)
from lagbench.programs.autoscaler.scale_loop import ScaleLoop
from lagbench.programs.autoscaler.scaled_object_status import (
    NO_FALLBACK,
    NOT_PAUSED,
    STATE_UNKNOWN,
    check_failed,
    static_fields,
    target_fields,
)
from lagbench.programs.autoscaler.scalers import ScalerCache, ScalersNotBuilt
from lagbench.programs.autoscaler.status_writer import StatusWriter
from lagbench.programs.autoscaler.worker import Worker

log = logging.getLogger(__name__)

# KEDA's work queue retries a failed reconcile after 5, 10, 20 ... s, up to 1000 s.
_FIRST_RETRY_SECONDS = 5.0
_LONGEST_RETRY_SECONDS = 1000.0
_NEVER_SECONDS = 3600.0


class ScaledObjectWorker(Worker):
    """Owns the scalers, the scale loop and the HPA of one ScaledObject."""

    def __init__(self, manifest: Manifest, bench: Bench) -> None:
        """Take the object up; nothing happens before ``start``."""
        super().__init__("scaled-object " + "/".join(key_of(manifest)))
        self._bench = bench
        self._latest = manifest
        self._status = StatusWriter(bench.cluster, SCALED_OBJECT, manifest)
        self._taken: Manifest | None = None
        self._spec: ScaledObjectSpec | None = None
        self._cache: ScalerCache | None = None
        self._loop: ScaleLoop | None = None
        self._problem = "not reconciled yet"
        self._failures = 0
        self._retry_at: float | None = None
        self._poll_at: float | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return key_of(self._latest)

    @property
    def uid(self) -> str:
        """Uid of the object that was taken up."""
        return str(self._latest["metadata"].get("uid", ""))

    def update(self, manifest: Manifest) -> None:
        """Take a newer version of the object."""
        is_news = _desired(manifest) != _desired(self._latest)
        self._latest = manifest
        if is_news or _is_deleting(manifest):
            self.wake()

    def retry_now(self) -> None:
        """Try a failed reconcile again at once."""
        if self._retry_at is not None:
            self._retry_at = self._bench.clock.monotonic_seconds()
            self.wake()

    def step(self) -> float:
        """Reconcile when the object changed or a retry is due; poll when it is time."""
        clock, manifest = self._bench.clock, self._latest
        if _is_deleting(manifest):
            self.stop()
            return 0.0
        is_changed = self._taken is None or _desired(manifest) != _desired(self._taken)
        now = clock.monotonic_seconds()
        if is_changed or (self._retry_at is not None and now >= self._retry_at):
            if is_changed:
                self._failures = 0
            self._reconcile(manifest)
        now = clock.monotonic_seconds()
        if self._poll_at is not None and now >= self._poll_at and self._loop is not None:
            try:
                self._loop.tick(self._latest)
            except ClusterError as error:
                log.warning("%s: poll failed: %s", self.name, error)
            now = clock.monotonic_seconds()
            self._poll_at = now + self._loop.spec.polling_interval_seconds
        due = [at - now for at in (self._poll_at, self._retry_at) if at is not None]
        return min(due, default=_NEVER_SECONDS)

    def read_metric_milli(self, metric_name: str) -> int:
        """Serve an HPA: one live poll of the trigger behind ``metric_name``."""
        spec, cache = self._spec, self._cache
        trigger = spec.trigger_of(metric_name) if spec is not None else None
        if cache is None or trigger is None:
            raise NotReady(f"error getting scalers: {self._problem}")
        try:
            return metric_milli(cache.read_for_hpa(trigger).metric)
        except ScalersNotBuilt as error:
            self._event("Warning", "KEDAScalerFailed", str(error))
            raise NotReady(f"error when getting metric values error getting scalers {error}") from (
                error
            )
        except NotReady as error:
            self._event("Warning", "KEDAMetricSourceFailed", str(error))
            raise

    def finish(self) -> None:
        """End the loop; when the object was deleted, remove its HPA and restore its target."""
        self._event("Normal", "KEDAScalersStopped", "Stopped scalers watch")
        self._bench.directory.withdraw(self.key, self)
        if not _is_deleting(self._latest) and self.key in self._bench.directory.scaled_objects:
            return
        cluster, spec = self._bench.cluster, self._spec
        try:
            if spec is not None:
                cluster.delete(HPA, (spec.namespace, spec.hpa_name))
                original = self._status.status.get("originalReplicaCount")
                if spec.restores_replicas and original is not None:
                    cluster.set_replicas(spec.target, spec.namespace, original)
            reconcile.release(self._latest, cluster)
        except ClusterError as error:
            if not error.is_not_found:
                log.warning("%s: deletion not completed: %s", self.name, error)
        self._event("Warning", "ScaledObjectDeleted", "ScaledObject was deleted")

    def _reconcile(self, manifest: Manifest) -> None:
        previous, self._taken, self._retry_at = self._taken, manifest, None
        is_same_spec = previous is not None and previous.get("spec") == manifest.get("spec")
        if not (is_same_spec and self._loop is not None):
            self._cache, self._loop, self._poll_at = None, None, None
        try:
            self._take_up(manifest)
        except reconcile.CheckFailed as error:
            self._fail(str(error), event=error.event, event_message=error.event_message)
            self._retry_later()
        except WrongInput as error:
            said = getattr(error, "keda_message", None) or str(error)
            self._fail(said, event="KEDAScalerFailed", event_message=said)
        except ClusterError as error:
            log.warning("%s: reconcile failed: %s", self.name, error)
            self._problem = str(error)
            self._retry_later()

    def _take_up(self, manifest: Manifest) -> None:
        bench = self._bench
        spec = reconcile.parse(manifest, bench.cluster)
        reconcile.check_sole_owner(manifest, spec.target, bench.directory)
        scale = reconcile.check_target(spec, bench.cluster)
        reconcile.ensure_metadata(manifest, spec, bench.cluster)
        status = self._status.status
        fields = {**static_fields(spec), **target_fields(spec.target)}
        if status.get("originalReplicaCount") is None:
            fields["originalReplicaCount"] = scale.spec_replicas
        cache = self._cache
        if cache is None:
            cache = ScalerCache(spec, build=bench.build_scaler, built=self._scaler_built)
            try:
                cache.ensure_built()
            except ScalersNotBuilt as error:
                raise reconcile.scalers_failed(error) from error
        reconcile.ensure_hpa(manifest, spec, bench.cluster)
        self._spec, self._cache, self._problem, self._failures = spec, cache, "", 0
        bench.directory.offer(self.key, self)
        self._status.write(fields, [READY, *self._first_conditions(status)])
        if self._loop is None:
            self._loop = ScaleLoop(spec, cache, bench, self._status)
            self._poll_at = bench.clock.monotonic_seconds()
            self._event("Normal", "KEDAScalersStarted", "Started scalers watch")
        self._event("Normal", "ScaledObjectReady", "ScaledObject is ready for scaling")

    def _scaler_built(self, trigger: Trigger) -> None:
        self._event("Normal", "KEDAScalersStarted", f"Scaler {trigger.type} is built")

    def _fail(self, message: str, *, event: str, event_message: str) -> None:
        log.warning("%s: %s", self.name, message)
        self._problem = message
        self._event("Warning", event, event_message)
        try:
            self._status.write({}, [check_failed(message), STATE_UNKNOWN, NO_FALLBACK, NOT_PAUSED])
        except ClusterError as error:
            log.warning("%s: status not written: %s", self.name, error)

    def _retry_later(self) -> None:
        delay = min(_FIRST_RETRY_SECONDS * 2**self._failures, _LONGEST_RETRY_SECONDS)
        self._failures += 1
        self._retry_at = self._bench.clock.monotonic_seconds() + delay

    @staticmethod
    def _first_conditions(status: dict[str, Any]) -> list[Condition]:
        known = {item.get("type"): item for item in status.get("conditions") or []}
        is_known = known.get("Active", {}).get("reason") not in {None, STATE_UNKNOWN.reason}
        active = [] if is_known else [Condition("Active", "Unknown")]
        return [*active, NO_FALLBACK, NOT_PAUSED]

    def _event(self, kind: Any, reason: str, message: str) -> None:
        self._bench.keda_events.record(self._latest, kind, reason, message)


def _desired(manifest: Manifest) -> tuple[Any, Any]:
    return manifest.get("spec"), manifest["metadata"].get("annotations")


def _is_deleting(manifest: Manifest) -> bool:
    return bool(manifest["metadata"].get("deletionTimestamp"))
