"""Say in words what a run is doing: a state of the run, never the name of a task."""

from __future__ import annotations

from collections.abc import Sequence

from lagbench.core.live.live_line import LiveSpike

_STATES = {
    "approve": "waiting for an approval",
    "bench_up": "starting the bench",
    "create_topics": "creating topics",
    "follow_run": "starting consumers",
    "run_consumers": "starting consumers",
    "run_spark_consumer": "starting consumers",
    "start_recorder": "starting the recorder",
    "apply_scaling_policy": "applying the policy",
    "group_stable": "waiting for a stable group",
    "start_actions": "starting the load",
    "inject_spike": "starting the load",
    "lag_at_rest": "draining",
    "actions_played": "playing actions",
    "replicas_settled": "scaling down",
    "stop_tail": "stopping the load",
    "lag_drained": "processing the last messages",
    "group_settled": "waiting for a stable group",
    "fence_run": "fixing the end of the topics",
    "account_for_messages": "accounting",
    "rebalance_count_check": "measuring",
    "reconcile_check": "measuring",
    "verdict": "judging",
    "remove_workloads": "cleaning up",
    "bench_down": "cleaning up",
}
"""By the task that begins it; under load the stream decides."""

EVENTS = {
    "inject_spike": ("started", "load starts"),
    "traffic_finished": ("finished", "planned load ends"),
    "lag_at_rest": ("finished", "lag at rest"),
    "replicas_settled": ("finished", "replicas at rest"),
    "fence_run": ("started", "end of the topics"),
}
"""Events for a chart, at the begin or the end of a task; a wait has its event at its end."""

LATE_COMMIT_SECONDS = 30.0
DRAINS = ("lag_at_rest", "lag_drained")
"""The tasks that wait until the group has committed."""

_UNDER_LOAD = ("lag_builds_up", "traffic_finished")


def state_of(
    task: str,
    *,
    second: float | None = None,
    spikes: Sequence[LiveSpike] = (),
    planned_seconds: float | None = None,
) -> str:
    """Return the state of a run whose newest task is ``task``, at a second of its stream.

    :param second: of the stream; None: it has not begun, or it is not known.
    :param planned_seconds: length of the planned load.
    """
    if task not in _UNDER_LOAD:
        return _STATES.get(task, task.replace("_", " "))
    if second is None:
        return "starting the load"
    for number, spike in enumerate(spikes, 1):
        if second < spike.start_seconds:
            return "base load before the spike" if number == 1 else "between two spikes"
        if second < spike.end_seconds:
            which = f"spike {number} of {len(spikes)}" if len(spikes) > 1 else "spike"
            length = spike.end_seconds - spike.start_seconds
            return f"{which}, {second - spike.start_seconds:.0f} of {length:.0f} s"
    if planned_seconds is not None and second >= planned_seconds:
        return "draining"
    return "base load after the spike" if spikes else "under load"


def late_commit(
    idle_seconds: float, lag: int | None, *, waited_seconds: float, most_seconds: float | None
) -> str:
    """Return what is waited for while a group leaves messages uncommitted; empty: it continues.

    The words change each half minute, so that a log has few lines of them.

    :param idle_seconds: since the last commit. :param most_seconds: after that time of
        ``waited_seconds`` the wait is given up.
    """
    if not lag or idle_seconds < LATE_COMMIT_SECONDS:
        return ""
    since_step = idle_seconds % LATE_COMMIT_SECONDS
    text = f"no commit for {idle_seconds - since_step:.0f} s, {lag:,} messages uncommitted"
    if most_seconds is None:
        return f"{text}: commit when idle"
    left = max(most_seconds - max(waited_seconds - since_step, 0.0), 0.0)
    return f"{text}: commit when idle, or wait up to {round(left, -1):.0f} s"
