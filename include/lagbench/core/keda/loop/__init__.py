"""KEDA at work: polls, values for the HPA, conditions, fallback."""
