"""List each accounting level: what is known of the messages of a group that is not lagbench's.

lagbench's own consumers write a ledger and report what they do, so every SLO can be judged. Of
other code less is known. A level names the source of what is known, and the SLOs that this source
cannot judge. Such an SLO has no limit by default, and the verdict names it first. If the user gives
it a limit, the run is undetermined.

This table is the one place for what differs between levels. Kinds of consumers are in
``consumer_kind.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

LevelName = Literal["commits", "output", "ledger"]

_NO_WORK = "committed offsets do not show which messages were processed, nor when"
_STEPS = "committed offsets move in steps, one for each commit, not as the work is done"
_NO_OWNERS = "only lagbench's own consumers report which of them owned a partition"
_NO_REPORT = "only lagbench's own consumers report messages that they give up"

_OF_OWNERS: Mapping[str, str] = dict.fromkeys(
    (
        "reaction_seconds",
        "rebalance_dip_percent",
        "rebalance_area_seconds",
        "rebalance_recovery_seconds",
        "zombies",
        "surplus_pods_idle",
    ),
    _NO_OWNERS,
)


@dataclass(frozen=True, slots=True)
class AccountingLevel:
    """One level of accounting."""

    name: LevelName
    source: str
    """Where the knowledge of messages comes from, in words."""
    has_work: bool
    """True: each processed message is known by its identity, with an instant."""
    cannot_judge: Mapping[str, str]
    """SLOs (fields of ``Slos``) that this level cannot judge, each with the reason."""

    @property
    def text(self) -> str:
        """Return the level in words, for a verdict and a report."""
        return f"accounting by {self.source}"

    def default_limits(self) -> dict[str, bool | None]:
        """Return the limits of the SLOs that cannot be judged: none."""
        return {name: _NO_LIMIT.get(name) for name in self.cannot_judge}

    def with_default_limits(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the user's limits, and none for the other SLOs that this level cannot judge."""
        return {**self.default_limits(), **given}

    def judged_without(self, names: Iterable[str], *, but: Collection[str] = ()) -> str:
        """Return the first sentence of a verdict: what this level leaves unjudged.

        :param names: the SLOs of the verdict.
        :param but: SLOs that have a limit although they cannot be judged.
        """
        known = set(names) - set(but)
        missing = [name for name in self.cannot_judge if name in known]
        return f"judged without: {', '.join(missing)} ({self.text})" if missing else ""


_NO_LIMIT: Mapping[str, bool] = {"surplus_pods_idle": False, "lag_falls_at_full_parallelism": False}
"""Claims are switched off, not left empty."""

COMMITS = AccountingLevel(
    "commits",
    "committed offsets alone",
    has_work=False,
    cannot_judge={
        **dict.fromkeys(
            (
                "lost",
                "failed",
                "duplicated",
                "reordered",
                "time_lag_p95_seconds",
                "time_lag_p99_seconds",
            ),
            _NO_WORK,
        ),
        **dict.fromkeys(("standstill_seconds", "lag_falls_at_full_parallelism"), _STEPS),
        **_OF_OWNERS,
    },
)
OUTPUT = AccountingLevel(
    "output",
    "the consumer's output topic",
    has_work=True,
    cannot_judge={"failed": _NO_REPORT, **_OF_OWNERS},
)
LEDGER = AccountingLevel(
    "ledger",
    "the ledger that the consumer writes",
    has_work=True,
    cannot_judge={"failed": _NO_REPORT, **_OF_OWNERS},
)
LEVELS: Mapping[str, AccountingLevel] = {level.name: level for level in (COMMITS, OUTPUT, LEDGER)}


def knows_work(name: LevelName | None) -> bool:
    """Return whether a level knows which messages were processed; None: lagbench's consumers."""
    return name is None or LEVELS[name].has_work


def level_of(name: LevelName) -> AccountingLevel:
    """Return the level of this name."""
    return LEVELS[name]
