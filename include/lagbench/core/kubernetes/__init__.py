"""What Kubernetes writes in its own way: quantities, instants, fields, Go's texts."""
