"""A small Kubernetes control plane in one process, whose pods are ordinary processes.

It speaks the part of the Kubernetes REST API that its README names, so the same manifests and the
same clients work here and on a cluster.
"""
