"""What the API server and KEDA's webhook accept."""
