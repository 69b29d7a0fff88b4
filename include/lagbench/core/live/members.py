"""Follow which partitions the members of the group hold, as its coordinator describes them."""

from __future__ import annotations

from lagbench.core.telemetry import GroupMembers, GroupSample

_STABLE = "stable"


class LiveMembers:
    """The assignment by client id, which is the name of a pod of the run.

    Members with one client id are one. While a classic group rebalances the coordinator reports no
    assignment: a member keeps the last known one until the group is stable.
    """

    def __init__(self) -> None:
        """Start before the first description."""
        self._is_stable = True
        self._held: dict[str, list[int]] = {}
        self._changes: dict[str, list[int] | None] = {}

    def take(self, record: GroupSample | GroupMembers) -> None:
        """Update with a sample of the group, or with a description of its members."""
        if isinstance(record, GroupSample):
            self._is_stable = record.state == _STABLE
            return
        held = self._known(record)
        there = {member.client_id for member in record.members}
        for name in [name for name in self._held if name not in there]:
            del self._held[name]
            self._changes[name] = None
        for name, partitions in held.items():
            if self._held.get(name) != partitions:
                self._held[name] = self._changes[name] = partitions

    def changes(self) -> dict[str, list[int] | None] | None:
        """Return each assignment that changed since the last call: [] is idle, None has left.

        None instead of a dict: nothing has changed.
        """
        changes, self._changes = self._changes, {}
        return changes or None

    def _known(self, record: GroupMembers) -> dict[str, list[int]]:
        held: dict[str, set[int]] = {}
        for member in record.members:
            held.setdefault(member.client_id, set()).update(member.partitions)
        return {name: sorted(held[name]) for name in held if held[name] or self._is_stable}
