"""Controllers of Deployments, Jobs and Services, and their events."""
