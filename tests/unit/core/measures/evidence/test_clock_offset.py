"""Bounding another clock's offset from whole seconds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lagbench.core.clocks import OffsetBound
from lagbench.core.measures.evidence.clock_offset import RunningBound, answer_bound, probe_at

SECOND, MILLISECOND = 1_000_000_000, 1_000_000
START_AT = 1_795_255_202 * SECOND


def ask(offset_ns: int, sent_at: int, there_ns: int, back_ns: int) -> OffsetBound:
    """Return what a clock that is ``offset_ns`` ahead answers."""
    stamped = sent_at + there_ns + offset_ns
    second_at = stamped // SECOND * SECOND
    return answer_bound(
        second_at=second_at, sent_at=sent_at, received_at=sent_at + there_ns + back_ns
    )


@given(
    st.integers(-(10**10), 10**10),
    st.lists(
        st.tuples(st.integers(0, SECOND), st.integers(0, SECOND // 10), st.integers(0, SECOND)),
        min_size=1,
    ),
)
def test_the_bound_of_all_answers_holds_the_true_offset(
    offset_ns: int, answers: list[tuple[int, int, int]]
) -> None:
    """However late the answers are, a steady clock never contradicts itself."""
    running, at = RunningBound(), START_AT

    for pause, there, back in answers:
        at += pause
        bound = running.take(ask(offset_ns, at, there, back), at=at)
        assert bound.low_ns <= offset_ns <= bound.high_ns

    assert running.answers == len(answers)


@given(st.integers(-(10**10), 10**10))
def test_twelve_probes_leave_little_more_than_one_answer_takes(offset_ns: int) -> None:
    """A second halves with each answer that meets the turn of a second, down to 4 ms there."""
    running, at = RunningBound(), START_AT

    for _ in range(12):
        at = probe_at(running.bound, at + SECOND // 2, lead_ns=2 * MILLISECOND)
        running.take(ask(offset_ns, at, 2 * MILLISECOND, 2 * MILLISECOND), at=at)

    assert running.bound is not None
    assert running.bound.low_ns <= offset_ns <= running.bound.high_ns
    assert running.bound.width_ns <= 5 * MILLISECOND


def test_asking_at_random_instants_never_does_worse_than_a_second() -> None:
    """One answer alone bounds the offset to a second and the time that it took."""
    bound = ask(0, START_AT + 300 * MILLISECOND, MILLISECOND, MILLISECOND)

    assert bound == OffsetBound(-302 * MILLISECOND, 700 * MILLISECOND)


def test_a_clock_that_steps_starts_a_new_period() -> None:
    """Set back by 3 s, its answers contradict the earlier ones."""
    running = RunningBound()
    running.take(ask(0, START_AT, 0, 0), at=START_AT)
    stepped_at = START_AT + 10 * SECOND

    bound = running.take(ask(-3 * SECOND, stepped_at, 0, 0), at=stepped_at)

    assert bound.low_ns <= -3 * SECOND <= bound.high_ns
    assert (running.since_at, running.answers) == (stepped_at, 1)
