"""Answer a ScaledObject or an HPA as the API server and KEDA's webhook do, without a cluster."""
