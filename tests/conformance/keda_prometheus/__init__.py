"""KEDA's own prometheus scaler, played case by case and recorded."""
