"""Checks of the control algorithms against recorded truth; each module is a command."""
