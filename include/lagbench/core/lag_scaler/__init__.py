"""Lag that persists: settings, windows of offset samples, the rule, and what it decides."""
