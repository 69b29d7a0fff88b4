"""The formulas of scalingModifiers: read and type-checked as KEDA does, then evaluated."""
