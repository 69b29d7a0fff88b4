"""Pods over time: timelines, cost, CPU, start."""
