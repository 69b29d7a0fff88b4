"""Say who held which partition when, and what ended it: the rules of the accounting."""

from lagbench.core.ownership.causes import CauseFinder
from lagbench.core.ownership.epochs import Epoch, Rival, Span, rivals_of, spans_of, unknown_work
from lagbench.core.ownership.holdings import Hole
from lagbench.core.ownership.owners import OWNER_PREFIX, clock_of, most_error_ns
from lagbench.core.ownership.run_facts import FACT_KINDS, RunFacts, StreamPlan, facts_of
from lagbench.core.ownership.unledgered import Ledgered, Unledgered, unledgered_bounds

__all__ = [
    "FACT_KINDS",
    "OWNER_PREFIX",
    "CauseFinder",
    "Epoch",
    "Hole",
    "Ledgered",
    "Rival",
    "RunFacts",
    "Span",
    "StreamPlan",
    "Unledgered",
    "clock_of",
    "facts_of",
    "most_error_ns",
    "rivals_of",
    "spans_of",
    "unknown_work",
    "unledgered_bounds",
]
