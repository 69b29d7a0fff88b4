"""The lag scaler: KEDA's external scaler protocol over gRPC, for lag that persists."""
