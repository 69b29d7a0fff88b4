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


@pytest.mark.parametrize("cell", ["١٢", "1_0", "nan", "inf", "1e999", "-1", "0x10", "true", ""])
def test_a_cell_that_is_no_number_is_named_by_its_line(cell: str) -> None:
    """Python's float takes more than a spreadsheet writes."""
    with pytest.raises(WrongInput) as refused:
        trace_points(f"second,rate\n0,1\n10,{cell}\n20,0\n", where="t.csv")

    assert refused.value.field == "line 3"


def test_too_many_rows_are_refused_before_they_are_read() -> None:
    """The limit and the number are in the message."""
    with pytest.raises(WrongInput, match="at most 10,000") as refused:
        trace_points("second,rate\n" + "0,1\n" * 1_000_000, where="t.csv")

    assert refused.value.value == 1_000_000
