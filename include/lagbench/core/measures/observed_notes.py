"""Format instants of a run for readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lagbench.core.measures.doubts.doubts_of_group import contradictions_of_members
from lagbench.core.measures.evidence.lag_readings import first_cuts, gaps_between, gaps_text
from lagbench.core.measures.evidence.observed_group import member_pods
from lagbench.core.measures.measures import Measures
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.run_evidence import RunEvidence
from lagbench.core.scenario.actions import CLIENTS_SESSION_SECONDS
from lagbench.core.telemetry.records_of_recorder import GroupSample


def moment(measures: Measures, at: int | None) -> str:
    """Return an instant as seconds after the start of the stream."""
    origin = measures.load.stream_started_at
    if at is None or origin is None:
        return "at an unknown instant"
    return f"at {(at - origin) / NANOSECONDS:+.1f} s"


NAMED_EPISODES = 3


def observation_notes(run: RunEvidence, found: Measures) -> Iterator[str]:
    """Return what a reader of an observed run should know."""
    if run.observation is None or found.measured_from_at is None:
        return
    until_at = found.measured_until_at or found.measured_from_at
    if run.observation.policy_unknown:
        yield f"policy unknown: {run.observation.policy_unknown}"
    yield run.work.note
    yield _cuts(run, found)
    rate, source = run.observation.pod_rate_per_second, run.observation.pod_rate_source
    known = "unknown" if rate is None else f"{rate:,.0f}/s"
    yield f"rate of one pod: {known} ({source})"
    if found.spikes_unknown:
        yield found.spikes_unknown
    elif not found.load.spikes:
        yield "no period of the load was above the capacity of the pods at the floor: no spike"
    gaps = gaps_between(run.lag.known_at, found.measured_from_at, until_at)
    yield gaps_text("total lag", gaps, found.measured_from_at)
    yield _rebalances(found)
    yield from _members(run, until_at)


def _cuts(run: RunEvidence, found: Measures) -> str:
    cuts = first_cuts(run.lag)
    if not cuts:
        return ""
    plural = "s" * (len(cuts) != 1)
    return (
        f"the end offset of {len(cuts)} partition{plural} fell, first "
        f"{moment(found, min(cuts.values()))}: the topic was recreated, or records were cut off. "
        "Load and work then count from the new offsets"
    )


def _rebalances(found: Measures) -> str:
    episodes = found.rebalances.episodes
    if not episodes:
        return "the group did not rebalance"
    causes = Counter(episode.trigger.replace("_", " ") for episode in episodes)
    counted = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
    named = "; ".join(
        f"{moment(found, episode.started_at)} {episode.trigger_text}"
        for episode in episodes[:NAMED_EPISODES]
    )
    more = f"; {len(episodes) - NAMED_EPISODES} more" if len(episodes) > NAMED_EPISODES else ""
    return f"{len(episodes)} rebalances ({counted}): {named}{more}"


def _members(run: RunEvidence, until_at: int) -> Iterator[str]:
    """Return where members and pods of the Deployment do not match."""
    if run.observation is None or run.observation.deployment is None:
        return
    most = max((r.members for r in run.records if isinstance(r, GroupSample)), default=0)
    known = member_pods(run.records)
    if known < most:
        yield (
            f"at most {known} of {most} members were known by the name or address of their pod: "
            "put the pod's name into client.id to see which pod holds a partition"
        )
    yield from contradictions_of_members(
        run.records, until_at, session_seconds=CLIENTS_SESSION_SECONDS
    )
