"""Define the objects of a run on a cluster: manifests, settings, rights, Lease."""
