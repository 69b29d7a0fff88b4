"""CPU time that messages burn."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from tests.unit.programs.consumer.records import chunk

from lagbench.programs.consumer.cpu_burn import CpuBurner
from lagbench.programs.consumer.partition_work import PartitionWork, Writes

MS_OF_CPU = 1_000_000


class Core:
    """A CPU clock and a wall clock that pass by one ms of burning at a time."""

    def __init__(self, wall_per_cpu: int) -> None:
        """Pass ``wall_per_cpu`` ms of wall time for each ms of CPU time."""
        self.cpu_ns = self.wall_ns = 0
        self._wall_per_cpu = wall_per_cpu

    def burner(self, cpu_ns: int) -> CpuBurner:
        """Return a burner on these clocks."""
        return CpuBurner(
            cpu_ns, lambda: self.wall_ns, cpu_clock=lambda: self.cpu_ns, burn=self._burn
        )

    def _burn(self) -> None:
        self.cpu_ns += MS_OF_CPU
        self.wall_ns += MS_OF_CPU * self._wall_per_cpu


def planned(count: int, cost_ns: int) -> Writes:
    """Return records whose work was planned one after the other from 0 on."""
    records = chunk(0, count)
    starts = np.arange(count, dtype=np.int64) * cost_ns
    work = PartitionWork(0, "member")
    return Writes(work, records.offsets, records.events, starts, starts + cost_ns)


def test_the_burner_spends_the_thread_s_own_cpu_time() -> None:
    """40 messages of 1 ms take 40 ms of this thread's CPU time, measured by its clock."""
    burner = CpuBurner(1 * MS_OF_CPU, time.monotonic_ns)
    began = time.thread_time_ns()

    for _ in range(4):
        burner.work_on(planned(10, 1 * MS_OF_CPU), 0)

    assert 39 * MS_OF_CPU < time.thread_time_ns() - began < 60 * MS_OF_CPU


@pytest.mark.parametrize(("wall_per_cpu", "late_ms"), [(1, 0), (3, 20)])
def test_a_pod_without_a_core_of_its_own_is_late(wall_per_cpu: int, late_ms: int) -> None:
    """Ten messages of 1 ms take 10 ms of CPU; at a third of a core the last is 20 ms late."""
    burner = Core(wall_per_cpu).burner(1 * MS_OF_CPU)

    writes, late_ns = burner.work_on(planned(10, 1 * MS_OF_CPU), 0)

    assert late_ns / MS_OF_CPU == pytest.approx(late_ms, abs=wall_per_cpu)
    assert (np.diff(writes.started_at) >= 0).all()
    assert writes.all_done_at / MS_OF_CPU == pytest.approx(10 + late_ms, abs=wall_per_cpu)


def test_what_was_burned_too_much_is_burned_less_next_time() -> None:
    """Blocks of 1 ms serve messages of 0.3 ms without adding to them."""
    core = Core(1)
    burner = core.burner(300_000)

    for _ in range(1000):
        burner.work_on(planned(1, 300_000), 0)

    assert core.cpu_ns / MS_OF_CPU == pytest.approx(300, abs=1)


def test_starts_ascend_from_one_part_of_a_turn_to_the_next() -> None:
    """What was planned after late records starts after them, even if its own work was not late."""
    burner = Core(3).burner(1 * MS_OF_CPU)
    first, second = planned(10, 1 * MS_OF_CPU), planned(1, 1 * MS_OF_CPU)
    later = replace(second, started_at=second.started_at + 25 * MS_OF_CPU)

    done, late_ns = burner.work_on(first, 0)
    after, _ = burner.work_on(later, late_ns)

    assert done.started_at[-1] > 27 * MS_OF_CPU
    assert after.started_at[0] == 25 * MS_OF_CPU + late_ns
