"""Define what a second consumer group on the topic shares with the first one.

It has its own consumers, policy and SLOs; what it does not state is that of the first group. Topic,
keys, load, poison and actions are those of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lagbench.core.scenario.actions import ActionBase, ActionKind

FIELD = "second_group"
_PARTS = ("consumer", "slos")
_ACTIONS_ON_ALL_GROUPS: frozenset[ActionKind] = frozenset(
    {"broker_restart", "autoscaler_down", "grow_partitions"}
)
"""The other kinds act on pods, on the policy or on the connections of the first group only."""


def with_fields_of_first(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario's data with the unset fields of the second group filled in.

    The policy stays unset, because a command may replace that of the scenario.
    """
    found = dict(data)
    second = found.get(FIELD)
    if not isinstance(second, Mapping):
        return found
    filled = dict(second)
    for part in _PARTS:
        given, first = second.get(part, {}), found.get(part, {})
        if isinstance(given, Mapping) and isinstance(first, Mapping):
            filled[part] = {**first, **given}
        elif part not in second:  # the scenario's own is wrong, and is reported there
            filled[part] = {}
    found[FIELD] = filled
    return found


def shared_actions(actions: Sequence[ActionBase]) -> dict[int, int]:
    """Return the actions that act on all groups: number in the run -> number in the second group.

    The second group's scenario has only these, so they have other numbers there.
    """
    on_all = _ACTIONS_ON_ALL_GROUPS
    numbers = [number for number, action in enumerate(actions) if action.kind in on_all]
    return {number: place for place, number in enumerate(numbers)}
