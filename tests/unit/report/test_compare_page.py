"""The page of several runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.fakes.compared_runs import write_run
from tests.fakes.run_folder_builder import quick_spike_run

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.compare.noise_floor import noise_floor
from lagbench.errors import WrongInput
from lagbench.report.compare_page import read_shown, render_compared
from lagbench.results.compared_runs import read_compared
from lagbench.results.measure_run import judge_run, measure_run


def compared(root: Path, run_id: str, **changed: object) -> RunFolder:
    """Write a run without tables."""
    folder = write_run(root, run_id, **changed)  # type: ignore[arg-type]
    policy = changed.get("policy", "slow")
    folder.write_text(folder.policy, f"maxReplicaCount: {policy}\n<b>same</b>\n")
    return folder


def test_curves_lie_on_one_axis(tmp_path: Path) -> None:
    """Of a run without tables there is no curve, and no line of another run takes its colour."""
    made = quick_spike_run().write(tmp_path)
    measure_run(made)
    judge_run(made)
    runs = [read_shown(compared(tmp_path, "kept")), read_shown(made)]

    html = render_compared(runs)

    assert re.findall(r'<path class="run (run-\d)" d="M', html) == ["run-2"] * 4
    assert len(set(re.findall(r'class="spike" x="([\d.]+)"', html))) == 1


def test_differences_are_to_the_first_run_and_policies_a_diff(tmp_path: Path) -> None:
    """A policy's text is a text; nothing is tested without pairs."""
    folders = [
        compared(tmp_path, "a"),
        compared(tmp_path, "b", policy="quick", reaction=60.0),
        compared(tmp_path, "c", policy="other", reaction=20.0),
    ]
    html = render_compared([read_shown(one) for one in folders])

    assert re.search(r'<td class="n">60.0 <span class="warn">\(\+40.0\)</span>', html)
    assert html.count('<span class="added">+maxReplicaCount: ') == 2
    assert "<b>same</b>" not in html
    assert "Tested by pairs" not in html
    assert 'name="run"' not in html


def test_a_policy_that_was_not_kept_is_not_the_same(tmp_path: Path) -> None:
    """The page names its run."""
    folders = [compared(tmp_path, name) for name in ("a", "b")]

    same = render_compared([read_shown(one) for one in folders])
    folders[1].policy.unlink()
    unknown = render_compared([read_shown(one) for one in folders])

    assert "files are the same" in same
    assert "files are the same" not in unknown
    assert re.search("Not known.*: b\\.", unknown)


def test_pairs_are_tested_against_the_noise_floor(tmp_path: Path) -> None:
    """Two sides of two seeds each, by their policies."""
    runs = [
        read_shown(compared(tmp_path, f"{policy}-{seed}", policy=policy, seed=seed, reaction=value))
        for policy, value in (("slow", 40.0), ("quick", 16.0))
        for seed in (1, 2)
    ]
    twice = [
        read_compared(compared(tmp_path, f"n-{n}", policy="slow", seed=n // 2)) for n in range(12)
    ]
    floor = noise_floor(list(zip(twice[::2], twice[1::2], strict=True)), now=1)

    html = render_compared(runs, [floor])

    assert "quick minus slow, 2 pairs" in html
    row = re.search(r"<td[^>]*>Scale-out reaction, s</td>(.*?)</tr>", html)
    assert row is not None
    assert [re.sub("<[^>]+>", "", cell) for cell in row[1].split("</td>")][:4] == [
        *("40.0", "16.0", "-24.0 (-24.0 to -24.0)", "±0.0"),
    ]


def test_runs_that_cannot_be_compared_are_shown_as_such(tmp_path: Path) -> None:
    """With every reason, and untested."""
    other = compared(tmp_path, "b", policy="quick", scenario={"partitions": 6})

    html = render_compared([read_shown(compared(tmp_path, "a")), read_shown(other)])

    assert "scenario partitions: 12 against 6" in html


@pytest.mark.parametrize("count", [1, 7])
def test_the_page_shows_two_to_six_runs(tmp_path: Path, count: int) -> None:
    """More would be no picture."""
    shown = read_shown(compared(tmp_path, "a"))

    with pytest.raises(WrongInput):
        render_compared([shown] * count)
