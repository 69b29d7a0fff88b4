"""Run folders on disk."""
