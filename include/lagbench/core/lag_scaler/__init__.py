"""The lag scaler: the rule on lag that persists, and its settings."""
