"""Conditions of the sensors, as asynchronous triggers."""
