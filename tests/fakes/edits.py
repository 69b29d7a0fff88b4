"""Random edits of documents: what a reader must answer or reject, and never crash on."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(None, True, 0, -1, 1.5, -0.0, 5e-324, 1e300, 2**31, 2**64, 10**400, float("inf")),
        *(
            "",
            "x",
            "$(X)",
            "0-9",
            "1e400",
            "12",
            "١٢",
            "on",
            "60s",
            "a" * 5000,
            "\0",
            "é",
            "**",
            "{topic}",
            "{",
            "/",
        ),
        *([], {}, [1], [None], [[]], {"a": 1}, {"name": 1}, {"kind": []}),
    ]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else ()
    for key, one in enumerate(value) if isinstance(value, list) else inner:
        yield from places(one, (*path, key))


@st.composite
def edits(draw: st.DrawFn) -> list[tuple[float, str, Any]]:
    """Draw where to edit, as a share of all places, how, and with which value."""
    how = st.sampled_from(["replace", "remove", "wrap", "add"])
    share = st.floats(0, 1, exclude_max=True)
    return draw(st.lists(st.tuples(share, how, ODD), min_size=1, max_size=2))


def edited(content: Any, drawn: list[tuple[float, str, Any]]) -> Any:
    """Return a copy with the edits."""
    content = copy.deepcopy(content)
    for share, how, drawn_value in drawn:
        value = copy.deepcopy(drawn_value)  # twice the same one could contain itself
        if not (found := list(places(content))):
            break
        *way, last = found[int(share * len(found))]
        at = content
        for key in way:
            at = at[key]
        if how == "remove":
            del at[last]
        elif how == "add" and isinstance(at, dict):
            at[f"{last}s"] = value
        else:
            at[last] = [at[last]] if how == "wrap" else value
    return content
