"""The autoscaler that drives workloads where no KEDA runs: KEDA's operator and the HPA's loop.

It is one more client of the Kubernetes API. ``python -m lagbench.programs.autoscaler`` runs it;
the rules are in ``lagbench.core``, here are the clocks, the API and Kafka.
"""
