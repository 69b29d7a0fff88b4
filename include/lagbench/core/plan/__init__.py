"""What a cell needs, known before it starts."""
