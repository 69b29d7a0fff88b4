"""The recorded answers of the API server and KEDA's webhook: none differs."""

from pathlib import Path

import pytest

from tests.conformance import webhook

CASES = Path(__file__).parents[1] / "data" / "keda_webhook_cases.json.gz"


def test_every_row_agrees_in_answer_reason_and_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    """140 answers, 50 reasons of refusals (two of them of updates) and 6 sets of warnings."""
    code = webhook.main([str(CASES)])

    printed = capsys.readouterr().out
    assert printed.startswith("140 of 140 agree\n")
    assert "reasons equal: 50 of 50; warnings equal: 6 of 6" in printed
    assert code == 0
