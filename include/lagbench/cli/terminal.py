"""The one console of the commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from lagbench.shown import printable


class Terminal(Console):
    """A console on which foreign text is text: no markup, no emoji, nothing a terminal obeys.

    Names of groups, members and policies, notes and logs come from elsewhere.
    """

    def __init__(self, **options: Any) -> None:
        """Take the options of ``Console``."""
        super().__init__(**{"markup": False, "emoji": False, **options})

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text; a sequence that a highlighter would split is left out as a whole."""
        return super().render_str(printable(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what is written; the controls of ``rich`` itself stay."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)
