"""What a run makes on a cluster: manifests, settings, rights, Lease."""
