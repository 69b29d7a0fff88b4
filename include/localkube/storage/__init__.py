"""Stored objects: kinds, defaults, validation, watches, deletion."""
