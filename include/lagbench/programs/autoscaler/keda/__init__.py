"""KEDA's side: ScaledObjects reconciled, polled, paused."""
