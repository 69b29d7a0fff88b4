"""The load that a scenario asks for: rates, spikes, keys, and the bytes of each event."""
