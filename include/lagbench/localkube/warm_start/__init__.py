"""Pods of our programs fork from an interpreter that has made its imports already.

``interpreter`` is the process that forks, ``pod_process`` what a fork becomes; ``client`` is
localkube's side of it and ``fitness`` says which containers it may start.
"""
