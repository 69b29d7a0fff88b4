"""Report to the second group's telemetry, too, what happens to all groups of the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from lagbench.core.scenario.actions import ActionBase
from lagbench.core.scenario.second_group import shared_actions
from lagbench.core.telemetry.actions import ActionEnded, ActionStarted
from lagbench.core.telemetry.record import Record

Send = Callable[[Record], None]


def send_to_both(first: Send, second: Send, actions: Sequence[ActionBase]) -> Send:
    """Return a ``send`` that gives all records to ``first``, and to ``second`` those of its run."""
    places = shared_actions(actions)

    def send(record: Record) -> None:
        first(record)
        if not isinstance(record, ActionStarted | ActionEnded):
            second(record)
        elif record.number in places:
            second(msgspec.structs.replace(record, number=places[record.number]))

    return send
