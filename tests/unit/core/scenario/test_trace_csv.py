"""Traces from CSV."""

import pytest

from lagbench.core.scenario.trace_csv import trace_points
from lagbench.errors import WrongInput


def test_comments_and_blank_lines_are_skipped() -> None:
    """Rows become points in order."""
    points = trace_points("# made by hand\n\nsecond,rate\n0,5\n\n2.5,10\n4,0\n", where="t.csv")

    assert [(p.second, p.rate_per_second) for p in points] == [(0, 5), (2.5, 10), (4, 0)]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "header"),
        ("time,rate\n0,1\n1,1\n", "header"),
        ("second,rate\n0,1\n", "rows"),
        ("second,rate\n1,1\n2,1\n", "line 2"),
        ("second,rate\n0,1\n0,1\n", "line 3"),
        ("second,rate\n0,1\n5,2\n4,1\n", "line 4"),
        ("second,rate\n0,-1\n5,2\n", "line 2"),
        ("second,rate\n0,many\n5,2\n", "line 2"),
        ("second,rate\n0,nan\n5,2\n", "line 2"),
        ("second,rate\n0,1,3\n5,2\n", "line 2"),
        ("second,rate\n0,1\ninf,2\n", "line 3"),
        ("second,rate,spike\n0,1\n5,2,0\n", "line 2"),
        ("second,rate,spike\n0,1,2\n5,2,0\n", "line 2"),
    ],
)
def test_a_bad_row_is_named(text: str, field: str) -> None:
    """The message names the file and the line, or the header."""
    with pytest.raises(WrongInput) as caught:
        trace_points(text, where="t.csv")

    assert (caught.value.where, caught.value.field) == ("t.csv", field)


def test_a_third_column_marks_the_spikes() -> None:
    """1 is one, 0 is none; without the column nothing is said."""
    marked = trace_points("second,rate,spike\n0,5,0\n2,10,1\n4,0,0\n", where="t.csv")
    plain = trace_points("second,rate\n0,5\n4,0\n", where="t.csv")

    assert [point.is_spike for point in marked] == [False, True, False]
    assert {point.is_spike for point in plain} == {None}
