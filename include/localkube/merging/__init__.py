"""Merge writes into stored objects: patches, server-side apply, managed fields."""
