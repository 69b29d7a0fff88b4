"""``lagbench policy check`` says of a manifest what the real API server and KEDA's webhook say."""

from __future__ import annotations

import pytest

from tests.cluster.live_admission import LiveApi
from tests.cluster.policy_agreement import (
    Agreement,
    Case,
    agreements,
    answers_of_files,
    differences,
    read_cases,
)
from tests.cluster.rig.rig import Rig

CASES = [case for case in read_cases() if case.is_policy]
Answers = dict[str, list[Agreement]]


@pytest.fixture(scope="module")
def answers(rig: Rig) -> Answers:
    """Provide both answers to every case, asked in the order of the files."""
    found: Answers = {str(case): [] for case in CASES}
    for row in agreements(LiveApi(rig.kubeconfig), read_cases()):
        found[str(row.case)].append(row)
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_check_agrees_with_the_live_webhook(answers: Answers, case: Case) -> None:
    """Verdict, code, text and warnings are the live ones."""
    rows = answers[str(case)]

    assert rows
    assert "\n".join(differences(rows)) == ""


def test_the_check_of_a_file_agrees_but_for_what_it_cannot_know(answers: Answers) -> None:
    """Without the cluster it takes unknown workloads and foreign kinds to be there."""
    live = {name: rows[0].live.is_accepted for name, rows in answers.items()}

    offline = answers_of_files()

    differing = {name.partition("-")[2] for name in live if live[name] != offline[name]}
    assert differing == {
        "03-kind-rollout",
        "10-copied-out",  # its resourceVersion may be the stored one
        "13-beside-a-rollout",
        "13-cpu-of-nothing",
        "14-cpu-of-no-stateful-set",
    }
