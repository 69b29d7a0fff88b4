"""Accounting: every message in exactly one class."""
