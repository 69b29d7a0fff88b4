"""The Horizontal Pod Autoscaler: its object, and what one sync decides."""
