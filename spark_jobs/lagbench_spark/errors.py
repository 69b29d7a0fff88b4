"""Errors of the Spark jobs; each message names the source, the finding and the expectation."""

from __future__ import annotations


class UnreadableRun(ValueError):
    """The run folder or its topics lack data that a job needs."""
