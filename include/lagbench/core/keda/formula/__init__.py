"""The formula of scalingModifiers: parsed, checked, evaluated."""
