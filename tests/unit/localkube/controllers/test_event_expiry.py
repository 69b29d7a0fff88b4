"""Events that a client wrote leave the store like those of a real API server."""

from __future__ import annotations

from lagbench.localkube.controllers.events import KEPT_SECONDS, EventExpiry
from lagbench.localkube.objects import JsonObject, name_of
from lagbench.localkube.storage.registry import Registry
from lagbench.localkube.storage.resources import EVENT, NAMESPACE
from lagbench.localkube.storage.store import Store

PLACE = "bench"


class Cluster:
    """A store and its clock, in seconds."""

    def __init__(self) -> None:
        """Start empty at 0 s."""
        self.now = 0.0
        self.registry = Registry(Store())
        self.expiry = EventExpiry(self.registry.store, clock=lambda: self.now)
        self.registry.create(NAMESPACE, {"metadata": {"name": PLACE}}, "")

    def write(self, name: str) -> JsonObject:
        """Create an event as a client does."""
        return self.registry.create(EVENT, {"metadata": {"name": name}}, PLACE)

    def names(self) -> list[str]:
        """Return the events that are left now."""
        self.expiry.expire()
        return [name_of(event) for event in self.registry.store.select(EVENT, PLACE)]


def test_an_event_is_removed_an_hour_after_it_was_written() -> None:
    """Each has its own hour, and other objects stay."""
    cluster = Cluster()
    cluster.write("first")
    cluster.now = 100.0
    cluster.write("second")

    cluster.now = KEPT_SECONDS - 1
    assert cluster.names() == ["first", "second"]
    cluster.now = KEPT_SECONDS
    assert cluster.names() == ["second"]
    cluster.now = KEPT_SECONDS + 100
    assert cluster.names() == []
    assert cluster.registry.store.find(NAMESPACE, "", PLACE) is not None


def test_a_repeated_event_begins_its_hour_again() -> None:
    """A raised count is a write: the event that is still repeated stays."""
    cluster = Cluster()
    cluster.write("often")
    cluster.write("once")
    cluster.now = KEPT_SECONDS - 1
    cluster.registry.change(EVENT, PLACE, "often", lambda event: event.update(count=2))

    cluster.now = KEPT_SECONDS
    assert cluster.names() == ["often"]
