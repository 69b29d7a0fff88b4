"""Every message in exactly one class."""
