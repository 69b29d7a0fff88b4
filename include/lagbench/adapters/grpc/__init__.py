"""KEDA's external scalers over gRPC."""
