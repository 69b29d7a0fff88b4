"""Read-only pages below ``/bench``: the report of a run, and the run while it is in progress."""
