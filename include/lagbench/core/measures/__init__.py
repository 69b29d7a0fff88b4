"""Measures of a finished run, as pure functions of its records."""
