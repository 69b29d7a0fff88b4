"""The master and the workers of a consumer on Spark: a standalone cluster of pods.

The program starts Spark's own daemon, answers the pod's probes, reports the worker's life, and
turns SIGTERM into a decommissioning.
"""
