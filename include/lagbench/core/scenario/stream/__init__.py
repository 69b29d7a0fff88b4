"""Generate the load of a scenario: rates, spikes, keys, and the bytes of each event."""
