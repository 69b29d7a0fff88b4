"""Errors of the Spark jobs; each message says what was read, what was found, what is expected."""

from __future__ import annotations


class UnreadableRun(ValueError):
    """The run folder or its topics do not hold what a job needs."""
