"""A condition as an event of Airflow's: each time it begins, an AssetWatcher starts Dags."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from lagbench.core.live.beginnings import Beginnings
from lagbench.errors import PodsEnded, WrongInput
from lagbench_airflow.triggers.condition import (
    Condition,
    ConditionTrigger,
    Reading,
    made,
    values_text,
    written,
)

REFUSED_SECONDS = 60.0
"""Between two readings of a condition whose input is wrong; no retry in the triggerer helps it."""


class ConditionEventTrigger(BaseEventTrigger):
    """Fires each time its condition begins, for ``AssetWatcher(trigger=...)``; it never ends.

    It fires once the condition has held for ``hold_seconds``, and again only after it has not held
    for ``rearm_seconds``, at least ``least_seconds`` after the event before. The state of the
    watched asset keeps its last event, so that a triggerer which takes over does not fire again. It
    does not see what begins and ends without a triggerer. An event whose triggerer is killed at
    this instant may come twice.

    :param condition: what is watched, of ``lagbench_airflow.triggers.conditions``.
    :param poll_seconds: between two readings.
    """

    def __init__(
        self,
        *,
        condition: Any,
        hold_seconds: float = 0.0,
        rearm_seconds: float = 60.0,
        least_seconds: float = 600.0,
        poll_seconds: float = 5.0,
    ) -> None:
        """Keep the condition, or make it from what ``serialize`` has returned."""
        super().__init__()  # type: ignore[no-untyped-call]
        is_stored = isinstance(condition, str)
        self.condition: Condition = made(json.loads(condition) if is_stored else condition)
        self.poll_seconds = poll_seconds
        self.begins = Beginnings(hold_seconds, rearm_seconds, least_seconds)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and all arguments; they are the trigger's identity."""
        names = ("hold_seconds", "rearm_seconds", "least_seconds")
        return f"{__name__}.ConditionEventTrigger", {
            # As text: Airflow 3.3.2 never starts a watch whose arguments hold a mapping.
            "condition": json.dumps(written(self.condition), sort_keys=True),
            **{name: getattr(self.begins, name) for name in names},
            "poll_seconds": self.poll_seconds,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each beginning: the condition in words, and what was seen."""
        watch = ConditionTrigger(
            conditions={"": self.condition}, deadline_at=0.0, hold_seconds=0.0, poll_seconds=0.0
        )
        digest = hashlib.sha256(json.dumps(self.serialize(), sort_keys=True).encode()).hexdigest()
        key = f"lagbench-{digest[:12]}"
        begins, goal = self.begins, self.condition.goal()
        await self._recall(key)
        self.log.info("watching for: %s", goal)
        try:
            while True:
                was_armed, pause = begins.is_armed, self.poll_seconds
                found: Reading | str
                try:
                    found = await asyncio.to_thread(watch.look)
                except (WrongInput, PodsEnded) as error:
                    found, pause = str(error), max(pause, REFUSED_SECONDS)
                if isinstance(found, str):
                    self.log.warning("cannot read %s: %s", goal, found)
                    begins.has_begun(is_met=None, now=time.time())
                elif begins.has_begun(is_met=found.is_met, now=time.time()):
                    self.log.info("begins: %s: %s", goal, values_text(found.seen))
                    yield TriggerEvent({"begins": goal, "at": begins.fired_at, "seen": found.seen})  # type: ignore[no-untyped-call]
                if begins.is_armed is not was_armed:
                    await self._keep(key)
                await asyncio.sleep(pause)
        finally:
            await asyncio.shield(asyncio.to_thread(watch.close_clients))

    async def _recall(self, key: str) -> None:
        """Continue where the triggerer before has ended."""
        if self.asset_state_store is None:
            return
        try:
            kept: Any = await self.asset_state_store.aget(key)
        except ValueError:  # Airflow keeps no state of a trigger that several assets watch
            self.log.warning("a restart may fire again: give each asset a trigger of its own")
            self.asset_state_store = None
            return
        if isinstance(kept, dict):
            self.begins.is_armed, self.begins.fired_at = kept["is_armed"], kept["fired_at"]

    async def _keep(self, key: str) -> None:
        if self.asset_state_store is not None:
            kept = asdict(self.begins)
            await self.asset_state_store.aset(key, {n: kept[n] for n in ("is_armed", "fired_at")})
