"""The tables of the page on the simulator's error are those of its kept simulations and runs."""

from __future__ import annotations

from itertools import islice

from tests import model_biases


def test_the_page_has_the_tables_of_the_kept_simulations() -> None:
    """``python -m tests.model_biases`` prints them."""
    page = (model_biases.KEPT.parent / "README.md").read_text(encoding="utf-8")
    of = model_biases.kept()

    assert model_biases.aims_table(of) in page
    assert model_biases.later_table(of) in page
    assert model_biases.biases_table(of) in page


def test_todays_simulator_gives_the_kept_simulations() -> None:
    """After a change ``--simulate today`` prints the new ones; the first run shows that it did."""
    kept = [tuple(row) for row in model_biases.written() if row[0] == "today"]
    count = len(model_biases.MEASURES)

    assert list(islice(model_biases.simulate("today"), count)) == kept[:count]
