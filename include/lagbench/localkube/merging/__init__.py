"""How a write changes a stored object: patches, server-side apply, managed fields."""
