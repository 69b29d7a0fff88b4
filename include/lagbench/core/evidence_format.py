"""What a run folder records, by the format that its manifest states.

Format 1 is that of folders without the field: they were written before it was there. What a format
never recorded is named in a note and makes nothing undetermined; what it records and a folder
lacks, does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FORMAT_FIELD = "folder_format"
CURRENT_FORMAT = 2
"""Tail, members of the group, clock steps, failed deliveries by identity, start delays."""
MEMBERS_FORMAT = 2
"""The first with records of who is in the group."""


def folder_format(manifest: Mapping[str, Any]) -> int:
    """Return the format of the folder with ``manifest``."""
    return int(manifest.get(FORMAT_FIELD, 1))
