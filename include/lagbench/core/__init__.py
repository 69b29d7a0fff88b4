"""Pure computation: no clock, no I/O, no unseeded randomness."""
