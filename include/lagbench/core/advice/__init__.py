"""The advisor: which policy holds the SLO with the fewest pod-minutes."""
