"""Define the records of a run folder, by the format in its manifest.

Folders without the field have format 1: they were written before the field existed. Data that a
format never recorded is named in a note and makes nothing undetermined. Data that the format
records and the folder lacks makes the run undetermined.

A new name for a field is not a new format: models and records also read the earlier name
(``EARLIER_NAMES`` of the scenario, aliases of the measures), and write the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FORMAT_FIELD = "folder_format"
_TAIL_FIELD = "tail"
CURRENT_FORMAT = 2
"""Tail, members of the group, clock steps, failed deliveries by identity, start delays."""
MEMBERS_FORMAT = 2
"""The first format that records the members of the group."""


def folder_format(manifest: Mapping[str, Any]) -> int:
    """Return the format of the folder with ``manifest``; only the current one notes a tail."""
    return int(manifest.get(FORMAT_FIELD, CURRENT_FORMAT if _TAIL_FIELD in manifest else 1))


def unrecorded_text(number: int) -> str:
    """Return what a folder of format ``number`` never recorded; empty: it records everything."""
    if number >= CURRENT_FORMAT:
        return ""
    return (
        f"this folder is of format {number}: it lacks the tail of the stream, the members of the "
        "group by name, clock steps, the failed deliveries, and the start delay of pods"
    )
