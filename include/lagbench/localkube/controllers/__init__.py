"""What keeps objects as they are wanted: Deployments, Jobs, Services, events."""
