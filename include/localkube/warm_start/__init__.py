"""Fork pods of our programs from an interpreter that has already made its imports.

``interpreter`` is the process that forks, ``pod_process`` turns a fork into a pod's process,
``client`` is localkube's side, and ``fitness`` decides which containers may be forked.
"""
