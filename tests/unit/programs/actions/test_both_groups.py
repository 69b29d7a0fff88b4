"""Reports of actions to the telemetry of both consumer groups."""

from __future__ import annotations

from pydantic import TypeAdapter

from lagbench.core.scenario.actions import Action
from lagbench.core.telemetry.actions import ActionEnded, ActionStarted
from lagbench.core.telemetry.record import Record
from lagbench.programs.actions.both_groups import send_to_both

ACTIONS = TypeAdapter(tuple[Action, ...]).validate_python(
    [
        {"kind": "kill_pod", "at_seconds": 1},
        {"kind": "broker_restart", "at_seconds": 9, "for_seconds": 1},
    ]
)


def test_the_second_group_hears_of_actions_on_all_groups_only() -> None:
    """A killed pod is the first group's; a broker's restart has another number in the second."""
    first: list[Record] = []
    second: list[Record] = []
    send = send_to_both(first.append, second.append, ACTIONS)
    records = [
        ActionStarted(
            at=1, source="a", number=number, action=action.kind, targets=[], planned_at=None
        )
        for number, action in enumerate(ACTIONS)
    ]
    ended = ActionEnded(at=2, source="a", number=1, action="broker_restart")

    for record in (*records, ended):
        send(record)

    assert first == [*records, ended]
    assert [(type(r), r.number, r.action) for r in second] == [  # type: ignore[attr-defined]
        (ActionStarted, 0, "broker_restart"),
        (ActionEnded, 0, "broker_restart"),
    ]
