"""Pods over time: lives, cost, CPU, start."""
