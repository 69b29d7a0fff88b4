"""The needs of a cell, known before it starts."""
