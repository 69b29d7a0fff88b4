"""Lag over time: peak, drain, fall, build-up."""
