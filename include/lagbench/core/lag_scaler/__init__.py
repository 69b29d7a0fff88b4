"""Detect persistent lag: settings, windows of offset samples, the rule and its decision."""
