"""One ScaledObject: reconciled when it changes, polled on its own clock, its metrics served."""

from __future__ import annotations

import logging
from typing import Any

from lagbench.adapters.kube.cluster_protocol import (
    HPA,
    SCALED_OBJECT,
    ClusterError,
    Manifest,
    key_of,
)
from lagbench.core.keda.loop import KedaObject, Scaler, ScalerFailed, ScalersNotBuilt
from lagbench.core.keda.object import (
    ScaledObjectSpec,
    ScalingAnnotations,
    Trigger,
    TriggerRefused,
    parse_scaling_annotations,
)
from lagbench.core.kubernetes import parse_instant_ns
from lagbench.errors import WrongInput
from lagbench.programs.autoscaler.keda import reconcile
from lagbench.programs.autoscaler.keda.live_object import LiveObject
from lagbench.programs.autoscaler.keda.pausing import Pausing
from lagbench.programs.autoscaler.keda.readiness import Readiness
from lagbench.programs.autoscaler.keda.running_loop import RunningLoop
from lagbench.programs.autoscaler.keda.scaled_object_status import parse_health
from lagbench.programs.autoscaler.status_writer import StatusWriter
from lagbench.programs.autoscaler.worker import Worker
from lagbench.programs.autoscaler.worker_context import WorkerContext

log = logging.getLogger(__name__)

# KEDA's work queue retries a failed reconcile after 5, 10, 20 ... s, up to 1000 s; with a source
# that takes a second to fail these are the 5, 11, 21, 41, 83, 165 s that were recorded.
_FIRST_RETRY_SECONDS = 5.0
_LONGEST_RETRY_SECONDS = 1000.0
_NEVER_SECONDS = 3600.0


class ScaledObjectWorker(Worker):
    """Owns the state machine, the running loop and the HPA of one ScaledObject."""

    def __init__(self, manifest: Manifest, context: WorkerContext) -> None:
        """Take the object up; nothing happens before ``start``."""
        super().__init__("scaled-object " + "/".join(key_of(manifest)))
        self._context = context
        self._latest = manifest
        self._status = StatusWriter(context.cluster, SCALED_OBJECT, manifest)
        self._pausing = Pausing(context, self._status)
        self._readiness = Readiness(context, self._status, self._about)
        self._taken: Manifest | None = None
        self._spec: ScaledObjectSpec | None = None
        self._live: LiveObject | None = None
        self._loop: RunningLoop | None = None
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

    @property
    def hpa_name(self) -> str:
        """Name of the object's HPA; empty before there was one."""
        return self._spec.hpa_name if self._spec is not None else ""

    def update(self, manifest: Manifest) -> None:
        """Take a newer version of the object."""
        is_news = _desired(manifest) != _desired(self._latest)
        self._latest = manifest
        if is_news or _is_deleting(manifest):
            self.wake()

    def retry_now(self) -> None:
        """Try a failed reconcile again at once."""
        if self._retry_at is not None:
            self._retry_at = self._context.clock.monotonic_seconds()
            self.wake()

    def mend_hpa(self) -> None:
        """Make the HPA as it should be, soon; a paused object has none."""
        if self._loop is not None:
            self._retry_at = self._context.clock.monotonic_seconds()
            self.wake()

    def step(self) -> float:
        """Reconcile when the object changed or a retry is due; poll when it is time."""
        clock, manifest = self._context.clock, self._latest
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
            self._loop.poll()
            now = clock.monotonic_seconds()
            self._poll_at = now + self._loop.polling_interval_seconds
        due = [at - now for at in (self._poll_at, self._retry_at) if at is not None]
        return min(due, default=_NEVER_SECONDS)

    def finish(self) -> None:
        """End the loop; when the object was deleted, remove its HPA and restore its target."""
        self._stop_loop()
        if not _is_deleting(self._latest) and self.key in self._context.directory.scaled_objects:
            return
        cluster, spec = self._context.cluster, self._spec
        try:
            if spec is not None:
                cluster.delete(HPA, (spec.namespace, spec.hpa_name))
            if self._is_anothers():
                log.info("%s: returned unchanged", self.name)
                return
            if spec is not None:
                original = self._status.status.get("originalReplicaCount")
                if spec.restores_replicas and original is not None:
                    cluster.set_replicas(spec.target, spec.namespace, original)
            reconcile.release(self._latest, cluster)
        except ClusterError as error:
            if not error.is_not_found:
                log.warning("%s: deletion not completed: %s", self.name, error)
        self._event("Warning", "ScaledObjectDeleted", "ScaledObject was deleted")

    def _is_anothers(self) -> bool:
        """Return whether the object stays, so that another controller has it from now on."""
        try:
            stored = self._context.cluster.get(SCALED_OBJECT, self.key)
        except ClusterError:
            return False
        return stored["metadata"].get("uid") == self.uid and not _is_deleting(stored)

    def _reconcile(self, manifest: Manifest) -> None:
        previous, self._taken, self._retry_at = self._taken, manifest, None
        if previous is not None and previous.get("spec") != manifest.get("spec"):
            self._drop()
        annotations = parse_scaling_annotations(manifest)
        try:
            self._readiness.report_first()
            if annotations.is_paused:
                self._stop_loop()
                self._pausing.hold(manifest, annotations)
            else:
                self._take_up(manifest, annotations)
        except reconcile.CheckFailed as error:
            self._fail(str(error), event=error.event, event_message=error.event_message)
        except TriggerRefused as error:
            said = error.condition_message
            if error.stage == "scaler":
                self._fail(said, event="KEDAScalerFailed", event_message=error.keda_message)
            else:
                self._fail(said, event="ScaledObjectCheckFailed", event_message=said)
        except WrongInput as error:
            self._fail(str(error), event="ScaledObjectCheckFailed", event_message=str(error))
        except ClusterError as error:
            log.warning("%s: reconcile failed: %s", self.name, error)
            self._give_up_unstarted()
            self._retry_later()
        else:
            self._failures = 0

    def _take_up(self, manifest: Manifest, annotations: ScalingAnnotations) -> None:
        context = self._context
        self._pausing.report(manifest, annotations)
        spec = reconcile.parse(manifest, context.cluster)
        reconcile.check_sole_owner(manifest, spec.target, context.directory)
        scale = reconcile.check_target(spec, context.cluster)
        reconcile.ensure_metadata(manifest, spec, context.cluster)
        live = self._live
        if live is None:
            machine = self._new_machine(manifest, spec)
            live = self._live = LiveObject(machine, context, self._status, self._about)
        else:
            live.annotate(annotations)
        try:
            metrics = live.metric_specs()
        except ScalerFailed as error:
            raise reconcile.scalers_failed(error) from error
        reconcile.ensure_hpa(manifest, spec, metrics, context.cluster)
        self._spec = spec
        context.directory.offer(self.key, live)
        self._readiness.report_ready(spec, live, metrics, original_replicas=scale.spec_replicas)
        if self._loop is None:
            self._start_loop(live)

    def _new_machine(self, manifest: Manifest, spec: ScaledObjectSpec) -> KedaObject:
        status = self._status.status
        last_active = status.get("lastActiveTime")
        return KedaObject(
            spec,
            self._build_scaler,
            created_at_ns=parse_instant_ns(manifest["metadata"]["creationTimestamp"]),
            last_active_at_ns=parse_instant_ns(last_active) if last_active else None,
            health=parse_health(status),
            on_built=self._scaler_built,
        )

    def _build_scaler(self, trigger: Trigger) -> Scaler:
        """Build a scaler with the secrets as they are now: KEDA reads them at each building."""
        manifest = self._taken
        if trigger.authentication_ref is not None and manifest is not None:
            try:
                trigger = reconcile.parse(manifest, self._context.cluster).triggers[trigger.index]
            except (WrongInput, reconcile.CheckFailed) as error:
                said = getattr(error, "keda_message", None) or str(error)
                raise ScalersNotBuilt(said) from error
        return self._context.sources.scaler(self.key, trigger)

    def _start_loop(self, live: LiveObject) -> None:
        self._loop = RunningLoop(
            live,
            self._context,
            self._status,
            latest=self._about,
            on_new_specs=self.mend_hpa,
        )
        self._poll_at = self._context.clock.monotonic_seconds()
        self._event("Normal", "KEDAScalersStarted", "Started scalers watch")

    def _stop_loop(self) -> None:
        if self._loop is not None:
            self._event("Normal", "KEDAScalersStopped", "Stopped scalers watch")
        self._drop()

    def _drop(self) -> None:
        """End the loop and the state machine of this generation."""
        if self._loop is not None:
            self._loop.stop()
        if self._live is not None:
            self._context.directory.withdraw(self.key, self._live)
            self._live.close()
        self._live, self._loop, self._poll_at = None, None, None

    def _give_up_unstarted(self) -> None:
        """Release scalers that were built for nothing; a loop that already runs continues."""
        if self._loop is None:
            self._drop()

    def _scaler_built(self, trigger: Trigger) -> None:
        self._event("Normal", "KEDAScalersStarted", f"Scaler {trigger.type} is built")

    def _fail(self, message: str, *, event: str, event_message: str) -> None:
        self._give_up_unstarted()
        self._readiness.report_failure(message, event=event, event_message=event_message)
        self._retry_later()

    def _retry_later(self) -> None:
        delay = min(_FIRST_RETRY_SECONDS * 2**self._failures, _LONGEST_RETRY_SECONDS)
        self._failures += 1
        self._retry_at = self._context.clock.monotonic_seconds() + delay

    def _about(self) -> Manifest:
        return self._latest

    def _event(self, kind: Any, reason: str, message: str) -> None:
        self._context.keda_events.record(self._latest, kind, reason, message)


def _desired(manifest: Manifest) -> tuple[Any, Any]:
    return manifest.get("spec"), manifest["metadata"].get("annotations")


def _is_deleting(manifest: Manifest) -> bool:
    return bool(manifest["metadata"].get("deletionTimestamp"))
