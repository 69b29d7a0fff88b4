"""Label and field selectors."""

from __future__ import annotations

import pytest

from lagbench.localkube.api_error import ApiError
from lagbench.localkube.storage.selectors import label_matcher

LABELS = {"app": "web", "tier": "front", "example.com/team": "a-1"}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier=front", True),
        ("app=web,tier=back", False),
        ("app!=web", False),
        ("missing!=x", True),
        ("tier in (front, back)", True),
        ("tier notin (front,back)", False),
        ("missing notin (x)", True),
        ("example.com/team", True),
        ("!missing", True),
        ("!app", False),
        ("app in (web),tier notin (back),example.com/team=a-1", True),
    ],
)
def test_label_selectors(selector: str, *, matches: bool) -> None:
    """Equality, sets and existence follow the API's rules; absence satisfies the negations."""
    assert label_matcher(selector)(LABELS) is matches


def test_an_unreadable_selector_is_a_bad_request() -> None:
    """What cannot be parsed is rejected, not ignored."""
    with pytest.raises(ApiError) as refused:
        label_matcher("a=b=c")

    assert refused.value.code == 400
