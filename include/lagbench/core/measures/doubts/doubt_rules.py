"""The one list of doubts: each rule with its code, what it leaves undetermined, and its finder.

To add a doubt, write a finder that yields sentences with instant and values, and add its row. Each
row can really happen. A folder whose files contradict each other because one was edited is
refused by its seals (``results/seals.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lagbench.core.measures.doubts.doubts_of_group import (
    empty_group,
    members_and_replicas,
    other_owners,
    other_settings,
    pod_clocks,
    stale_replicas,
    stamps_apart,
    two_owners,
)
from lagbench.core.measures.doubts.doubts_of_load import (
    aborted,
    above_the_ceiling,
    clock_steps,
    done_before_due,
    end_of_the_run,
    fallen_offsets,
    incomplete_fence,
    late_at_the_client,
    ledger_holes,
    missed_start,
    no_lag,
    other_log,
    other_partitions,
    other_stream,
    pods_totals,
    unkept_plan,
    unplayed_actions,
)
from lagbench.core.measures.doubts.doubts_of_policy import (
    EVERYTHING,
    Doubt,
    Part,
    Window,
    foreign_steps,
    not_in_force,
)
from lagbench.core.measures.evidence.lag_readings import TelemetryGap, telemetry_gaps
from lagbench.core.measures.evidence.producer_report import Generator, generator
from lagbench.core.measures.model import MeasureModel
from lagbench.core.measures.run_evidence import RunEvidence

Find = Callable[[RunEvidence, Window], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Rule:
    """``find`` yields the sentences of the doubt; none: there is nothing to doubt."""

    code: str
    about: tuple[Part, ...]
    find: Find
    is_of_observations: bool = False
    """True: it also holds for a group that the bench neither loaded nor scaled."""


_LEDGER: tuple[Part, ...] = ("work", "latency", "messages", "owners")
_OWNERS: tuple[Part, ...] = ("policy", "group", "work", "messages", "owners")
RULES = (
    Rule("end", ("policy", "lag", "replicas", "group", "work"), end_of_the_run),
    Rule("no_lag", ("lag",), no_lag, is_of_observations=True),
    Rule("members", ("replicas", "group"), members_and_replicas),
    Rule("empty_group", ("group",), empty_group),
    Rule("above_the_ceiling", ("policy",), above_the_ceiling, is_of_observations=True),
    Rule("other_author", ("policy",), foreign_steps),
    Rule("other_policy", ("policy",), not_in_force),
    Rule("other_settings", EVERYTHING, other_settings),
    Rule("fallen_offsets", EVERYTHING, fallen_offsets),
    Rule("stale_replicas", ("replicas", "group"), stale_replicas),
    Rule("stamps_apart", ("replicas", "group"), stamps_apart),
    Rule("two_owners", _OWNERS, two_owners),
    Rule("other_owners", _OWNERS, other_owners),
    Rule("ledger_holes", _LEDGER, ledger_holes),
    Rule("pods_totals", _LEDGER, pods_totals),
    Rule("incomplete_fence", ("lag", "messages"), incomplete_fence),
    Rule("pod_clock", ("group", "work", "latency", "owners"), pod_clocks),
)
"""Each leaves ``about`` undetermined; messages that were found lost stay lost."""
LOAD_RULES = (
    Rule("unkept_plan", EVERYTHING, unkept_plan),
    Rule("unplayed_actions", EVERYTHING, unplayed_actions),
    Rule("other_stream", EVERYTHING, other_stream),
    Rule("late_at_the_client", EVERYTHING, late_at_the_client),
    Rule("other_log", EVERYTHING, other_log),
    Rule("clock_step", EVERYTHING, clock_steps, is_of_observations=True),
    Rule("done_before_due", EVERYTHING, done_before_due),
    Rule("other_partitions", EVERYTHING, other_partitions),
    Rule("missed_start", EVERYTHING, missed_start),
)
"""Each makes the run invalid: it was another load. The verdict gives its reason once."""


class Validity(MeasureModel):
    """The validity of a run's load; an invalid run is never judged ``pass``."""

    is_valid: bool
    reasons: tuple[str, ...]  # why it is invalid
    notes: tuple[str, ...]  # what a reader should know; does not invalidate
    generator: Generator
    telemetry_gaps: tuple[TelemetryGap, ...]


def _notes(gaps: Sequence[TelemetryGap]) -> Iterator[str]:
    """Yield a line for each kind of reading, in the order of its first gap, with its longest."""
    for what in dict.fromkeys(gap.what for gap in gaps):
        found = [gap for gap in gaps if gap.what == what]
        longest = max(found, key=lambda gap: gap.gap_seconds)
        times = f" at most, {len(found)} times" if len(found) > 1 else ""
        yield f"no reading of {what} for {longest.gap_seconds:.1f} s{times}: {longest.reason}"


def doubts_of(run: RunEvidence, window: Window) -> tuple[Doubt, ...]:
    """Return all doubts about the run, in the order of the rules."""
    return tuple(
        Doubt(code=rule.code, about=rule.about, text=text)
        for rule in RULES
        if run.observation is None or rule.is_of_observations
        for text in rule.find(run, window)
    )


def validity_of(run: RunEvidence, window: Window) -> Validity:
    """Return whether the load was the planned one, and what a reader should know of the readings.

    An observation had no plan to keep: the load is what the log took. After an abort all else that
    differs from the plan is its consequence.
    """
    gaps = telemetry_gaps(run.records, from_at=window.from_at, until_at=window.until_at)
    given_up = aborted(run)
    reasons = (
        (given_up,)
        if given_up
        else tuple(
            text
            for rule in LOAD_RULES
            if run.observation is None or rule.is_of_observations
            for text in rule.find(run, window)
        )
    )
    made = Generator()
    if run.observation is None:
        made = generator(run.records, run.offered.total)
    return Validity(
        is_valid=not reasons,
        reasons=reasons,
        notes=tuple(_notes(gaps)),
        generator=made,
        telemetry_gaps=gaps,
    )
