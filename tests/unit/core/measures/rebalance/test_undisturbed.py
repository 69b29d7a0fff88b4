"""What the measure of a dip reads where nothing happened."""

import numpy as np
import pytest

from lagbench.core.measures.evidence.group_events import GroupEvent
from lagbench.core.measures.evidence.series import RateSeries
from lagbench.core.measures.rebalance.counterfactual import Counterfactual
from lagbench.core.measures.rebalance.counting_owners import counting_owners
from lagbench.core.measures.rebalance.partition_work import PartitionWork
from lagbench.core.measures.rebalance.rate_dip import WINDOW_BINS
from lagbench.core.measures.rebalance.undisturbed import Undisturbed

BINS = 1400
"""Two minutes and twenty seconds: twenty blocks of 7 s."""


def undisturbed(done: np.ndarray, disturbed: list[tuple[int, int]]) -> Undisturbed:
    """Return the noise of one pod that could do 50 a bin all the time."""
    shape = (1, BINS)
    work = PartitionWork(
        arrivals=np.zeros(shape, dtype=np.float32),
        waiting=np.full(shape, 1e6, dtype=np.float32),
        done=None,
        lost=np.zeros(BINS, dtype=np.int64),
        pod_rates=None,
        message_seconds=None,
    )
    owners = counting_owners([GroupEvent(0, "a", "assigned", frozenset({0}))], 0, 1)
    rate = RateSeries(0, done, done)
    return Undisturbed(rate, Counterfactual(work, owners, 500.0), 0, BINS, disturbed)


def test_a_steady_group_has_no_noise() -> None:
    """50 a bin, as expected: 0 % and nothing behind."""
    noise = undisturbed(np.full(BINS, 50), []).noise(WINDOW_BINS, 500.0)

    assert noise is not None
    assert (noise.dip_percent, noise.short_dip_percent, noise.area_seconds) == (0, 0, 0)


def test_noise_is_what_nine_of_ten_blocks_stay_below() -> None:
    """One window in every block is 10 % low; a single stop of 3 s does not raise the noise."""
    done = np.full(BINS, 50)
    done[30::70] = 25
    done[700:730] = 0

    noise = undisturbed(done, []).noise(WINDOW_BINS, 500.0)

    assert noise is not None
    assert noise.dip_percent == pytest.approx(5, abs=1)
    assert noise.short_dip_percent == pytest.approx(25, abs=2)


def test_what_a_rebalance_disturbs_is_left_out() -> None:
    """Half of the run is low, and all of that is disturbed."""
    done = np.full(BINS, 50)
    done[:700] = 10

    noise = undisturbed(done, [(0, 700)]).noise(WINDOW_BINS, 500.0)

    assert noise is not None
    assert noise.dip_percent == 0


def test_a_run_without_a_calm_block_has_no_known_noise() -> None:
    """None: the least that a dip may be is then nothing."""
    assert undisturbed(np.full(BINS, 50), [(0, BINS)]).noise(WINDOW_BINS, 500.0) is None
