"""Simulate the whole loop on a virtual clock: traffic, pods and lag as a fluid, real control."""
